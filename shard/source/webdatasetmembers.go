package source

import (
	"path"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// labelMember is the extension of the member that holds a sample's label, by --label.
func labelMember(label string) string {
	if strings.HasPrefix(label, jsonLabelPrefix) {
		return "json"
	}
	return labelExtension
}

// splitMember returns the key and the extension, in lower case, of a member by its cleaned name; both are empty for one that belongs to no sample.
func splitMember(name string) (key, extension string) {
	folder, file := path.Split(name)
	base, extension, ok := strings.Cut(file, ".")
	first, _, _ := strings.Cut(name, "/")
	meta := len(first) > 3 && strings.HasPrefix(first, "__") && strings.HasSuffix(first, "__") // __meta__, of the tar and not of a sample
	if !ok || base == "" || meta {
		return "", ""
	}
	return folder + base, strings.ToLower(extension)
}

// memberNames finds the members of samples by their names.
type memberNames struct {
	imageKey string // the extension of the image; "": of any format that is read
	fields   []Field
}

// split returns the key of a member's sample, and its extension. whole says that the key goes up to the first dot.
func (n memberNames) split(name string) (key, extension string, whole bool) {
	key, extension = splitMember(name)
	last := strings.LastIndexByte(extension, '.')
	if last < 0 || n.imageKey != "" || n.wanted(extension) {
		return key, extension, true
	}
	return name[:strings.LastIndexByte(name, '.')], extension[last+1:], false
}

// wanted says that fields are made of the members with an extension.
func (n memberNames) wanted(extension string) bool {
	return slices.ContainsFunc(n.fields, func(f Field) bool { e, _ := fieldMember(&f); return e == extension })
}

func (n memberNames) isImage(extension string) bool {
	if n.imageKey != "" {
		return extension == n.imageKey
	}
	return imagefile.HasExtension(extension)
}
