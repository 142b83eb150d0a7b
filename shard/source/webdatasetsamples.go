package source

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	labelBytesMax      = 64 // bounds the file of a label
	imageKeyHint       = "; if this is a mask or the like, name the images' extension by --image-key"
	extensionsNotedMax = 8 // bounds the extensions of left-out members in the note
)

// wdsLayout is the tars of one split.
type wdsLayout struct {
	transport.TarFiles
	names   labelrule.ClassNames
	label   string // the same form as Options.Label
	info    *wdsInfo
	samples int // expected number, from info
	targets *targets.Values
}

// wdsSample is a sample, as far as it has been read.
type wdsSample struct {
	key        string
	image      *transport.Item   // nil before it is read
	content    *bytes.Buffer     // the image, which may stand before its label
	label      int32             // -1 before it is read
	none       bool              // the JSON gives null or a negative label: no class
	unlabelled bool              // the label is missing, and this is not a fault
	members    map[string][]byte // those with the label and the fields, by extension
}

// newWDSSample is a sample before its first member; content is memory for its image.
func newWDSSample(content *bytes.Buffer) wdsSample {
	content.Reset()
	return wdsSample{label: -1, content: content, members: make(map[string][]byte)}
}

// wdsWalker is the state of one walk.
type wdsWalker struct {
	*wdsLayout
	split       *dataset.Split
	fn          func(transport.Item) error
	walk        *transport.Walk
	labelMember string // the extension of the member with the label; "" with --no-labels
	labelKey    string // the key in it, if it is JSON
	find        wdsNames
	group       string    // the members' names up to the first dot
	whole       wdsSample // the sample of that key
	dotted      wdsSample // the last one with a key that goes on behind that dot
	keys        map[string]bool
	others      int              // members that are left out
	leftOut     map[string]bool  // the extensions of some of them
	classes     map[string]int32 // the labels of class names, once one is met
	foreign     int              // samples of classes that are not wanted
	negative    int              // samples without a class, by their JSON
	complete    int              // samples of this tar
	members     int              // members of this tar
	values      []byte           // the fields of the last sample
}

func (d *wdsLayout) Walk(walk *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	w := &wdsWalker{wdsLayout: d, split: s, fn: fn, walk: walk, find: wdsNames(s.Options),
		keys: make(map[string]bool), leftOut: make(map[string]bool)}
	if !s.Options.NoLabels {
		w.labelMember, w.labelKey = labelMember(d.label), strings.TrimPrefix(d.label, dataset.JSONPrefix)
	}
	w.whole, w.dotted = newWDSSample(new(bytes.Buffer)), newWDSSample(new(bytes.Buffer))
	for _, path := range d.Paths {
		if err := d.Each(walk, path, w.tar); err != nil {
			return dataset.Labels{}, err
		}
	}
	if w.others > 0 {
		s.Note("%s neither image nor label, and left out (%s)", bytesize.Counted(w.others, "file in the tars is", "files in the tars are"),
			transport.SomeNames(slices.Sorted(maps.Keys(w.leftOut))))
	}
	if w.labelMember == "" {
		return dataset.Labels{Numbered: true}, nil
	}
	n, _ := s.Seen(dataset.Labels{})
	if n == 0 && d.targets != nil {
		return dataset.Labels{Numbered: true}, nil
	}
	l, err := d.names.Labels(s, n)
	if err != nil {
		return dataset.Labels{}, err
	}
	if d.info != nil {
		d.info.noteSamples(s, d.samples, len(w.keys))
	}
	if d.label != s.Options.Label {
		s.Note("the labels are those of %s in the samples' JSON, as %s says", d.label, d.info.from)
	}
	if w.foreign > 0 {
		w.negative -= w.foreign
		s.Note("%s left out: %s does not name its class", bytesize.Counted(w.foreign, "sample is", "samples are"), d.names.From)
	}
	if w.negative > 0 {
		s.Note("%s left out: a %s that is null or negative is not a class", bytesize.Counted(w.negative, "sample is", "samples are"),
			d.label)
	}
	return l, nil
}

func (w *wdsWalker) tar(t *transport.TarReader) error {
	w.complete, w.members = 0, 0
	err := w.walk.Files(t, "", func(f *transport.Item) error {
		if f.Folder {
			return nil
		}
		return w.member(f)
	})
	if err == nil {
		w.group, err = "", w.flushBoth(t)
	}
	if err == nil && w.members == 0 {
		w.split.Note("%s has no files", t.Path)
	} else if err == nil && w.complete == 0 {
		err = t.Errorf("", "no sample of WebDataset in it, which is an image and its label .%s one after the other: move it elsewhere",
			w.labelMember)
	}
	return err
}

func (w *wdsWalker) member(f *transport.Item) error {
	w.members++
	sm, extension, err := w.sampleOf(f)
	if err != nil {
		return err
	}
	switch label := w.labelMember != "" && extension == w.labelMember; {
	case sm == nil:
	case label || w.find.wanted(extension):
		if label && sm.label >= 0 {
			return f.Errorf("a second label for %q", sm.key)
		}
		content, err := sm.readMember(f, extension, label)
		if err == nil && label {
			err = w.readLabel(sm, f, content)
		}
		return err
	case w.find.isImage(extension):
		return sm.readImage(f)
	}
	if w.others++; len(w.leftOut) < extensionsNotedMax {
		w.leftOut[cmp.Or(extension, "others")] = true
	}
	return nil
}

// sampleOf is the sample of a file, and its extension; nil: it is of none. Samples that the file ends are handed on.
func (w *wdsWalker) sampleOf(f *transport.Item) (sm *wdsSample, extension string, err error) {
	key, extension, whole := w.find.splitMember(f.Name)
	if key == "" {
		return nil, extension, nil
	}
	if group, _ := splitMember(f.Name); group != w.group {
		w.group, err = group, w.flushBoth(f.Tar)
	} else if !whole && key != w.dotted.key {
		err = w.flush(f.Tar, &w.dotted)
	}
	if sm = &w.whole; !whole {
		sm = &w.dotted
	}
	sm.key = key
	return sm, extension, err
}

// flushBoth hands on the samples of a group that has ended.
func (w *wdsWalker) flushBoth(t *transport.TarReader) error {
	if err := w.flush(t, &w.whole); err != nil {
		return err
	}
	return w.flush(t, &w.dotted)
}

// readLabel reads the number in the member of a label, or that of a key in a sample's JSON.
func (w *wdsWalker) readLabel(sm *wdsSample, f *transport.Item, content []byte) error {
	text := string(content)
	if w.labelKey != "" {
		value, err := dataset.JSONAt(content, w.labelKey)
		switch text = string(value); {
		case err == nil && (text == "null" || strings.HasPrefix(text, "-")):
			sm.none = true
			return nil
		case err == nil:
		case w.split.Options.Test || !w.split.Options.Select.Takes(sm.key):
			sm.unlabelled = true
			return nil
		case sm == &w.dotted:
			return nil // x.meta.json beside x.json has no image, or becomes a reject
		default:
			return f.Errorf("the sample %q has no label: %v (its label is %s%s)",
				sm.key, err, dataset.JSONPrefix, w.labelKey).Or(remedy.JSONLabel, remedy.Exclude, remedy.Unlabelled)
		}
	}
	var class string
	if json.Unmarshal([]byte(text), &class) != nil {
		class = strings.TrimSpace(text)
	}
	if _, _, number := labelrule.WholeNumber(class); !number && class != "" {
		return w.readClass(sm, f, class)
	}
	label, err := labelrule.ParseLabel(class, f.Errorf)
	if no, ok := errors.AsType[*transport.FormatError](err); ok {
		no.Remedies = []remedy.Remedy{remedy.JSONLabel} // there are no columns
	}
	if err == nil && label < 0 {
		err = f.Errorf("the label %d is negative: leave out images without a class", label)
	}
	sm.label = label
	return err
}

// readClass gives a label that is the name of a class, as timm's class ids are, its number among the classes.
func (w *wdsWalker) readClass(sm *wdsSample, f *transport.Item, class string) error {
	if w.classes == nil {
		w.classes = dataset.ClassIndex(w.names.Names)
	}
	if label, ok := w.classes[class]; ok {
		sm.label = label
		return nil
	}
	if w.names.Names != nil {
		sm.none = true
		w.foreign++
		return nil
	}
	ways := []remedy.Remedy{remedy.NameClasses, remedy.JSONLabel}
	if wordnet.Words(class) != "" {
		ways[0] = remedy.ILSVRC
	}
	return f.Errorf("the label %.40q is not a whole number: if it is the name of a class, the names of all are wanted", class).Or(ways...)
}

// readImage keeps the image until its sample ends.
func (sm *wdsSample) readImage(f *transport.Item) error {
	if sm.image != nil {
		return f.Errorf("a second image for %q, after %s: a sample has one", sm.key, path.Base(sm.image.Name)).Or(remedy.ImageKey)
	}
	sm.image = f
	if f.Reason != "" {
		return nil
	}
	_, err := sm.content.ReadFrom(f.Data)
	return err
}

// flush hands on a sample that has ended. Without image and label it is not a sample, but a file like a README.
func (w *wdsWalker) flush(t *transport.TarReader, sm *wdsSample) error {
	defer func() { *sm = newWDSSample(sm.content) }()
	if sm.image == nil && (sm.label < 0 || sm == &w.dotted && w.labelKey != "") {
		return nil
	}
	if w.keys[sm.key] {
		return t.Errorf(sm.key, "the key %q occurs twice: write the tars again with keys that differ, and with the image and the label "+
			"of a key one after the other (tar --sort=name)", sm.key)
	}
	w.keys[sm.key] = true
	if sm.none {
		w.negative++
		w.complete++
		return nil
	}
	unlabelled := w.labelMember == "" || sm.unlabelled || w.targets != nil
	it, hint := transport.Item{Key: sm.key, Label: sm.label, Labelled: true}, ""
	if sm == &w.dotted {
		hint = imageKeyHint
	}
	switch {
	case sm.image == nil:
		it.Reason = fmt.Sprintf("no image beside %s.%s in %s", path.Base(sm.key), w.labelMember, filepath.Base(t.Path))
	case sm.label < 0 && !unlabelled:
		it.Reason = fmt.Sprintf("no label: there is no %s.%s beside %s in %s%s", path.Base(sm.key), w.labelMember,
			path.Base(sm.image.Name), filepath.Base(t.Path), hint)
	default:
		it.Reason = cmp.Or(transport.NameReason(sm.key), sm.image.Reason)
		w.complete++
	}
	if it.Reason == "" {
		it.Size, it.Data = int64(sm.content.Len()), bytes.NewReader(sm.content.Bytes())
		it.Tar, it.Offset = sm.image.Tar, sm.image.Offset
		var err error
		if it.Fields, err = w.fieldValues(sm); err != nil {
			return t.Errorf(sm.image.Name, "%v%s", err, hint)
		}
		if _, _, unread := imagefile.Size(sm.content.Bytes()); w.targets != nil && unread == nil { // else the packer says so
			if dropped, err := w.addTargets(sm, &it); dropped {
				return nil
			} else if err != nil {
				return t.Errorf(sm.image.Name, "%v", err)
			}
		}
	}
	return w.fn(it)
}

// labelMember is the extension of the member that holds a sample's label, by --label.
func labelMember(label string) string {
	if strings.HasPrefix(label, dataset.JSONPrefix) {
		return "json"
	}
	return transport.LabelExtension
}

// splitMember returns a member's key and its extension, in lower case, by its cleaned name; "" for one that belongs to no sample.
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

// wdsNames finds the members of samples by their names, as the options ask for them.
type wdsNames dataset.Options

// splitMember returns the key of a member's sample, and its extension. whole says that the key goes up to the first dot.
func (n wdsNames) splitMember(name string) (key, extension string, whole bool) {
	key, extension = splitMember(name)
	last := strings.LastIndexByte(extension, '.')
	if last < 0 || n.ImageKey != "" || n.wanted(extension) {
		return key, extension, true
	}
	return name[:strings.LastIndexByte(name, '.')], extension[last+1:], false
}

// wanted says that fields are made of the members with an extension.
func (n wdsNames) wanted(extension string) bool {
	return slices.Contains(labelrule.MaskMembers, extension) && n.Targets.Asks(dataset.TakeMasks) ||
		extension == "json" && n.Targets.Asks(dataset.TakeObjects) ||
		slices.ContainsFunc(n.Fields, func(f dataset.Field) bool { e, _ := fieldMember(&f); return e == extension })
}

// maskKey is the key of the sample that a member is the mask of; "" for another member.
func maskKey(name string) string {
	key, extension := splitMember(name)
	if !slices.Contains(labelrule.MaskMembers, extension) {
		return ""
	}
	return key
}

// isImage says that members with an extension are images.
func (n wdsNames) isImage(extension string) bool {
	if n.ImageKey != "" {
		return strings.EqualFold(extension, n.ImageKey)
	}
	return imagefile.HasExtension(extension)
}

const memberBytesMax = 16 << 20 // bounds a member that fields are made of

// fieldMember is the extension of the member that a field comes from, and the key in JSON: "json" and "score" of json.score.
func fieldMember(f *dataset.Field) (extension, key string) {
	if key, ok := strings.CutPrefix(f.Source, dataset.JSONPrefix); ok {
		return "json", key
	}
	return f.Source, ""
}

func appendMember(f *dataset.Field, dst, content []byte) ([]byte, error) {
	extension, key := fieldMember(f)
	switch {
	case key != "":
		value, err := dataset.JSONAt(content, key)
		if err != nil {
			return dst, f.Errorf("%v", err)
		}
		return f.AppendJSON(dst, value)
	case f.Type == shard.Bytes:
		return shard.AppendBytes(dst, content), nil
	case extension == "json":
		return f.AppendJSON(dst, content)
	}
	text := string(content)
	if f.Type == shard.Text {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") // the last newline is not part of a caption
	}
	return f.AppendText(dst, text)
}

// BindFields takes fields from the members beside the images.
func (d *wdsLayout) BindFields(fields []dataset.Field) error {
	for i := range fields {
		f := &fields[i]
		extension, _ := fieldMember(f)
		if f.Type = cmp.Or(f.Type, map[string]shard.FieldType{"json": shard.JSON, "txt": shard.Text}[extension]); f.Type == "" {
			return transport.Refuse(d.Paths[0], "%v", f.Errorf("needs a type: %s", dataset.FieldTypes)).Or(
				remedy.FieldType.With("NAME", f.Name).With("SOURCE", f.Source))
		}
	}
	return nil
}

// readMember keeps the content of a member with the sample's label or a field, and returns it.
func (sm *wdsSample) readMember(f *transport.Item, extension string, label bool) ([]byte, error) {
	limit := int64(memberBytesMax)
	if label && extension == transport.LabelExtension {
		limit = labelBytesMax
	}
	if _, twice := sm.members[extension]; twice {
		return nil, f.Errorf("a second .%s for one image", extension)
	}
	if f.Kind != tar.TypeReg || f.Size > limit {
		return nil, f.Errorf("labels and fields are taken from regular files, of at most %d bytes for a .%s", limit, extension)
	}
	content := make([]byte, f.Size)
	sm.members[extension] = content
	_, err := io.ReadFull(f.Data, content)
	return content, err
}

// fieldValues are those of a sample that has been read, valid until the next.
func (w *wdsWalker) fieldValues(sm *wdsSample) (_ []byte, err error) {
	w.values = w.values[:0]
	for i := range w.split.Options.Fields {
		f := &w.split.Options.Fields[i]
		extension, _ := fieldMember(f)
		content, ok := sm.members[extension]
		if !ok {
			return nil, f.Errorf("there is no .%s beside the image", extension)
		}
		if w.values, err = appendMember(f, w.values, content); err != nil {
			return nil, err
		}
	}
	return w.values, nil
}
