package source

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// skippedShownMax bounds how many folders that were skipped are remembered.
const skippedShownMax = 1000

// skippedLooksMax bounds how many names in such a folder are looked at.
const skippedLooksMax = 256

// skippedFolders are hidden folders and those of systems, which are no part of a dataset, but hold images all the same, and hidden images, whose value is false.
// torchvision's ImageFolder takes them: a class called ".b" then moves all labels after it by one.
type skippedFolders map[string]bool

// add notes a file that is skipped, by its path, if it may be an image that someone put there.
func (k skippedFolders) add(name string) {
	base := path.Base(name)
	if !junkPath(path.Dir(name)) && strings.HasPrefix(base, ".") && !strings.HasPrefix(base, "._") && path.Ext(base[1:]) != "" && namedImage(base) && len(k) < skippedShownMax {
		k[name] = false // macOS makes a file ._x.jpg beside x.jpg, which is no image
	}
	if junk(base) || !strings.Contains(base, ".") || !namedImage(base) || len(k) == skippedShownMax {
		return
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if junk(path.Base(dir)) {
			k[dir] = true
		}
	}
}

// look notes a folder that is skipped if there is an image in it.
func (k skippedFolders) look(t fileTree, key, folder string) {
	looked := 0
	// What is no part of the dataset need not be readable, and not be looked through.
	entries, _ := t.list(folder)
	for _, e := range entries {
		if looked++; looked > skippedLooksMax || len(k) == skippedShownMax {
			return
		}
		if e.IsDir() {
			below, _ := t.list(path.Join(folder, e.Name()))
			for _, b := range below[:min(len(below), skippedLooksMax)] {
				k.add(path.Join(key, e.Name(), b.Name()))
			}
			continue
		}
		k.add(path.Join(key, e.Name()))
	}
}

// notes name them.
func (k skippedFolders) notes() (notes []string) {
	names := make(map[bool][]string)
	for _, name := range slices.Sorted(maps.Keys(k)) {
		names[k[name]] = append(names[k[name]], name)
	}
	if hidden := names[false]; hidden != nil {
		notes = append(notes, fmt.Sprintf("%s skipped (%s); torchvision's ImageFolder would take them: rename or remove them",
			bytesize.Counted(len(hidden), "hidden image is", "hidden images are"), someNames(hidden)))
	}
	if folders := names[true]; folders != nil {
		notes = append(notes, fmt.Sprintf("%s skipped, as hidden or a system's (%s); torchvision's ImageFolder would make a class of each: rename or remove such folders",
			bytesize.Counted(len(folders), "folder with images is", "folders with images are"), someNames(folders)))
	}
	return notes
}
