package labelrule

import (
	"maps"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Listed takes the files that a list names, and leaves out the others.
type Listed struct {
	Path    string           // the list
	Labels  map[string]int32 // by key; nil takes all images, without labels
	Classes []string
}

// Rule is the rule of a split.
func (l *Listed) Rule(*dataset.Split) (Rule, error) {
	return &listedRule{l, make(map[string]bool)}, nil
}

type listedRule struct {
	*Listed
	found map[string]bool
}

func (r *listedRule) Take(f *transport.Item) (bool, error) {
	label, listed := r.Listed.Labels[f.Key]
	if f.Folder || !listed && r.Listed.Labels != nil || !listed && !transport.NamedImage(f.Key) {
		return false, nil
	}
	if f.Label, f.Labelled = NoLabel, true; listed {
		f.Label, r.found[f.Key] = label, true
	}
	return true, nil
}

func (r *listedRule) Labels(s *dataset.Split) (dataset.Labels, error) {
	if missing := len(r.Listed.Labels) - len(r.found); missing > 0 {
		first := ""
		for _, key := range slices.Sorted(maps.Keys(r.Listed.Labels)) {
			if !r.found[key] {
				first = key
				break
			}
		}
		return dataset.Labels{}, transport.Refuse(r.Path, "names %s, of which %s not in %s (%s is the first): complete the images",
			bytesize.Counted(len(r.Listed.Labels), "image", "images"), bytesize.Counted(missing, "is", "are"), s.Path, first).Or(remedy.Images)
	}
	return dataset.Labels{Classes: r.Classes, Numbered: len(r.Classes) == 0}, nil
}
