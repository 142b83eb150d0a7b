package source

import (
	"cmp"
	"context"
)

// A labelRule tells the labels of files by their names.
type labelRule interface {
	// take says whether a file is a sample. It may set the file's label, and change its key. It is asked about folders too, which never are samples:
	// fs.SkipDir leaves out what is in them.
	take(f *file) (bool, error)
	// labels are those of the files that were taken.
	labels(s *Split) (labels, error)
}

// files is a layout of files that are a sample each.
type files struct {
	transport
	what string // in words
	rule func(s *Split) (labelRule, error)
	test bool // the labels of these images are unknown
}

func (l *files) unlabelled() bool { return l.test }

// place implements placed.
func (l *files) place(key string) string {
	if t, ok := l.transport.(placed); ok {
		return t.place(key)
	}
	return ""
}

func (l *files) describe() string { return l.what }

func (l *files) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	rule, err := l.rule(s)
	if err != nil {
		return labels{}, err
	}
	w := &walk{ctx: ctx, skipped: make(skippedFolders)}
	err = l.transport.files(w, func(f *file) error {
		if take, err := rule.take(f); err != nil || !take {
			return err
		}
		it := Item{Key: f.key, Reason: cmp.Or(f.reason, nameReason(f.key)), Label: f.label, Labelled: f.labelled}
		if it.Reason == "" && f.data != nil {
			it.Size, it.Data = f.size, f.data
			it.lies(f)
		}
		return fn(it)
	})
	if err != nil {
		return labels{}, err
	}
	s.cutOff(w.cut)
	for _, note := range w.skipped.notes() {
		s.note("%s", note)
	}
	return rule.labels(s)
}
