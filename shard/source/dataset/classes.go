package dataset

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Labels are the classes of a split and the labels of its items.
type Labels struct {
	Classes  []string
	Of       []int32 // maps an Item.Label to its label; empty: it is the label
	Folders  bool    // each class is a folder or a tar, and so is known to be there
	Numbered bool    // the classes are called by their labels only: the names that another split has for these labels are better
	Texts    bool    // the classes are the labels' own texts, in sorted order: no number means one
}

// ClassIndex maps classes to their labels.
func ClassIndex(classes []string) map[string]int32 {
	index := make(map[string]int32, len(classes))
	for i, c := range classes {
		index[c] = int32(i)
	}
	return index
}

func (l Labels) of(n int32) int32 {
	if n < 0 || len(l.Of) == 0 {
		return n
	}
	return l.Of[n]
}

// relabel maps the labels of the split's own classes to those of the expected classes.
func (s *Split) relabel(own Labels) (Labels, error) {
	l := Labels{Classes: s.expected, Of: own.Of}
	if own.Numbered {
		if s.first.labels.Texts && len(own.Classes) > 0 {
			return Labels{}, transport.Refuse(s.Path, "its labels are numbers, and those of %s are names: write both the same way",
				s.first.Path).Or(remedy.NameClasses)
		}
		if len(own.Classes) > len(s.expected) {
			return Labels{}, transport.Refuse(s.Path, "has the label %d, and the other split has only %d classes",
				len(own.Classes)-1, len(s.expected)).Or(remedy.NameClasses)
		}
		return l, nil
	}
	used, index := own.Classes, ClassIndex(s.expected)
	if !own.Folders {
		used = nil
		for _, label := range s.used(own) {
			used = append(used, own.Classes[label])
		}
	}
	if foreign := Without(used, index); len(foreign) > 0 {
		return Labels{}, transport.Refuse(s.Path, "%d of its %d classes are not among the %d of the other split (%s): "+
			"the two splits' labels would not agree. Give each split alone, this one with the labels of the other's set", len(foreign),
			len(used), len(s.expected), transport.SomeNames(foreign)).Or(remedy.ClassesOf)
	}
	if own.Folders && len(used) < len(s.expected) && !s.Options.ForceClasses {
		return Labels{}, transport.Refuse(s.Path, "has %d of the other split's %d classes (%s missing): complete it. "+
			"torchvision's ImageFolder would give the two splits labels that disagree",
			len(used), len(s.expected), transport.SomeNames(Without(s.expected, ClassIndex(used)))).Or(remedy.ForceClasses)
	}
	s.Note("%s has %d of the other split's %d classes and is labelled by those", s.Path, len(used), len(s.expected))
	l.Of = make([]int32, len(s.seen))
	for n := range l.Of {
		if l.Of[n] = own.of(int32(n)); l.Of[n] >= 0 {
			l.Of[n] = index[own.Classes[l.Of[n]]]
		}
	}
	return l, nil
}

func (s *Split) see(label int32) {
	if label < 0 {
		s.unlabelled++
		return
	}
	s.seen = append(s.seen, make([]bool, max(0, int(label)+1-len(s.seen)))...)
	s.seen[label] = true
}

// used returns the labels of the items so far, in order.
func (s *Split) used(l Labels) (labels []int32) {
	for n, seen := range s.seen {
		if label := l.of(int32(n)); seen && label >= 0 {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// Seen returns one more than the largest label of the items so far, and how many items have no label.
func (s *Split) Seen(l Labels) (n, unlabelled int) {
	for _, label := range s.used(l) {
		n = int(label) + 1
	}
	return n, s.unlabelled
}

// Without returns the names that an index lacks.
func Without(names []string, index map[string]int32) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := index[name]; return ok })
}

// IsWnid says that a name is that of a synset of WordNet's nouns, as n01440764.
func IsWnid(name string) bool {
	return len(name) == 9 && name[0] == 'n' && strings.Trim(name[1:], "0123456789") == ""
}

// SiblingClasses returns a warning if the set of the training split beside this one has other classes, so that its labels mean something
// else; otherwise "". classes are those of this split.
func (s *Split) SiblingClasses(classes []string) string {
	if s.Name == "train" || len(classes) == 0 {
		return ""
	}
	for _, beside := range []string{filepath.Dir(s.Path), filepath.Dir(s.Output)} {
		found, err := shard.FindAll(beside)
		if err != nil || found.Sets["train"] == "" {
			continue
		}
		m, err := shard.ReadManifest(found.Sets["train"])
		if err != nil {
			continue
		}
		label, differ := shard.LabelsDiffer(classes, m.Classes)
		if !differ || len(m.Classes) == 0 {
			return ""
		}
		return fmt.Sprintf("%s has other classes than %s beside it, from label %d on; %v",
			s.Path, found.Sets["train"], label, remedy.ClassesOf.With("SET", found.Sets["train"]))
	}
	return ""
}

// OrderClasses sorts classes by name, and those that all are numbers by number.
func OrderClasses(s *Split, classes []string) []string {
	if slices.ContainsFunc(classes, func(name string) bool { return strings.Trim(name, "0123456789") != "" || len(name) > 18 }) {
		return classes
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(name)
		return n
	}
	ordered := slices.SortedFunc(slices.Values(classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
	})
	at, differ := shard.LabelsDiffer(ordered, classes)
	switch {
	case !differ:
		return classes
	case s.Options.ClassOrder == ClassOrderString:
		s.Note("the classes are numbers and stand in the order of strings, as torchvision's ImageFolder has them: %s has the label %d",
			ordered[at], slices.Index(classes, ordered[at]))
		return classes
	}
	s.Note("the classes are numbers and stand in numeric order: %s has the label %d; torchvision's ImageFolder, "+
		"which sorts them as strings, would give it %d; %v", ordered[at], at, slices.Index(classes, ordered[at]), remedy.StringOrder)
	return ordered
}
