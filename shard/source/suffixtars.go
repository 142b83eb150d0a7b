package source

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// suffixTars is ILSVRC2012 as Hugging Face's hub had it before parquet, in compressed tars without folders, where a name ends in the image's class:
//
//	data/train_images_0.tar.gz … train_images_4.tar.gz   n01440764_10026_n01440764.JPEG
//	data/val_images.tar.gz                               ILSVRC2012_val_00000001_n01751748.JPEG
//	data/test_images.tar.gz                              ILSVRC2012_test_00000001.JPEG
//
// A sample's key is its name.
var suffixTars = Kind{
	Name:   "Hugging Face's image tars",
	Forms:  []string{"a folder with train_images_0.tar.gz to train_images_4.tar.gz and val_images.tar.gz, or with data/ that has them", "one of these"},
	Labels: "the wnid at the end of each name, by its place among ILSVRC2012's; --test adds test_images.tar.gz, whose labels are -1",
	open:   openSuffixTars,
}

// suffixClass is the wnid that a name ends in before its extension; "" if there is none.
func suffixClass(name string) string {
	base := strings.TrimSuffix(name, path.Ext(name))
	_, class, _ := cutLast(base, "_")
	if !isWnid(class) || strings.Contains(name, "/") {
		return ""
	}
	return class
}

// cutLast is strings.Cut at the last place.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// isSuffixTar says that the first image of a tar has its class at the end of its name.
func isSuffixTar(p *place) (bool, error) {
	for i := range sniffedMembersMax {
		m, err := p.member(i)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if m.image {
			return suffixClass(m.name) != "", nil
		}
		if namedTar(m.name) {
			break
		}
	}
	return false, nil
}

func openSuffixTars(p *place) ([]*Split, error) {
	if !p.folder {
		if is, err := isSuffixTar(p); !is || err != nil {
			return nil, err
		}
		s, err := newSuffixTars(p, []string{p.path})
		return []*Split{s}, err
	}
	tars, _ := p.tars()
	if len(p.folders) == 1 && p.folders[0] == "data" && len(tars) == 0 {
		q, err := p.in("data", "")
		if err != nil {
			return nil, err
		}
		q.output = cmp.Or(p.output, p.path)
		if tars, _ = q.tars(); len(q.folders) > 0 {
			return nil, nil
		}
		return openSuffixFolder(q, tars)
	}
	if len(p.folders) > 0 {
		return nil, nil
	}
	return openSuffixFolder(p, tars)
}

// openSuffixFolder opens the splits that the tars of a folder are named for.
func openSuffixFolder(p *place, tars []string) ([]*Split, error) {
	groups := make(map[string][]string)
	for _, name := range tars {
		split := namedSplit(name)
		groups[split] = append(groups[split], filepath.Join(p.path, name))
	}
	first := append(append([]string(nil), groups["train"]...), groups["val"]...)
	if len(first) == 0 {
		return nil, nil
	}
	q, err := newPlace(first[0], p.opts, p.kinds, p.tree)
	if err != nil {
		return nil, err
	}
	defer q.close()
	if is, err := isSuffixTar(q); !is || err != nil {
		return nil, err
	}
	if unnamed := groups[""]; unnamed != nil {
		return nil, &FormatError{Path: unnamed[0], Msg: "other tars here are named for a split, and this one is not: move it elsewhere"}
	}
	var splits []*Split
	for _, name := range []string{"train", "val", "test"} {
		if groups[name] == nil {
			continue
		}
		if name == "test" && !p.opts.Test {
			splits[0].note("the test images have no labels and are left out: --test takes them, with the label -1")
			continue
		}
		s, err := newSuffixTars(p, groups[name])
		if err != nil {
			return nil, err
		}
		s.Name = name
		if len(groups) > 1 {
			s.Output = cmp.Or(p.output, p.path) + "-" + name + "-shards"
		}
		splits = append(splits, s)
	}
	if p.opts.Split != "" && len(splits) > 1 {
		return nil, &FormatError{Path: p.path, Msg: fmt.Sprintf("holds tars of several splits, which cannot all be called %q", p.opts.Split)}
	}
	return splits, nil
}

// suffixTarsLayout is the tars of one split.
type suffixTarsLayout struct {
	inTars
	index map[string]int32 // wnid → label
}

func newSuffixTars(p *place, paths []string) (*Split, error) {
	in, err := p.inTars(paths...)
	return p.newSplit(&suffixTarsLayout{in, newLabels(ilsvrcVal().classes).index}), err
}

func (l *suffixTarsLayout) describe() string {
	if len(l.paths) == 1 {
		return "a tar of images with the class in their names"
	}
	return fmt.Sprintf("%d tars of images with the class in their names", len(l.paths))
}

// label is the label that a key says.
func (l *suffixTarsLayout) label(key string) (int32, bool) {
	if strings.HasPrefix(key, testNamePrefix) {
		return -1, true
	}
	label, ok := l.index[suffixClass(key)]
	return label, ok
}

func (l *suffixTarsLayout) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	w := &tarWalk{ctx: ctx, fn: fn}
	known := ilsvrcVal()
	differ := 0
	err := l.each(s, func(t *tarReader) error {
		return w.files(t, func(h *tar.Header) error {
			label, ok := l.label(h.Name)
			if !ok {
				return t.errorf(h.Name, "the name does not end in one of ILSVRC2012's wnids, as those of other images do: move it elsewhere")
			}
			if base, _, _ := cutLast(h.Name, "_"); strings.HasPrefix(h.Name, valNamePrefix) {
				if n, ok := valNumber(base + valNameSuffix); ok && known.labels[n-1] != label {
					differ++
				}
			}
			return w.item(t, h, h.Name, label)
		})
	})
	if err != nil {
		return labels{}, err
	}
	if differ > 0 {
		s.note("%s validation images have another class in their names than is known of them", bytesize.Grouped(differ))
	}
	out := newLabels(known.classes)
	out.lookup = l.label
	return out, nil
}
