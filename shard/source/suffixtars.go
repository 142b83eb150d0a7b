package source

import (
	"cmp"
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
func isSuffixTar(c *candidate) (bool, error) {
	for i := range sniffedMembersMax {
		m, err := c.member(i)
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

func openSuffixTars(c *candidate) ([]*Split, error) {
	if c.folder == nil {
		if is, err := isSuffixTar(c); !is || err != nil {
			return nil, err
		}
		s, err := newSuffixTars(c, []string{c.path})
		return []*Split{s}, err
	}
	names, _ := c.tars()
	if len(c.folders) == 1 && c.folders[0] == "data" && len(names) == 0 {
		q, err := c.in("data", "")
		if err != nil {
			return nil, err
		}
		q.output = cmp.Or(c.output, c.path)
		c = q
		names, _ = c.tars()
	}
	if len(c.folders) > 0 {
		return nil, nil
	}
	for _, name := range names {
		if split := namedSplit(name); split != "train" && split != "val" {
			continue
		}
		q, err := c.in(name, "")
		if err != nil {
			return nil, err
		}
		defer q.close()
		if is, err := isSuffixTar(q); !is || err != nil {
			return nil, err
		}
		return c.bySplit(names, func(_ string, files []string) (*Split, error) { return newSuffixTars(c, files) })
	}
	return nil, nil
}

func newSuffixTars(c *candidate, names []string) (*Split, error) {
	var paths []string
	for _, name := range names {
		if !isAbsolute(name) {
			name = filepath.Join(c.path, name)
		}
		paths = append(paths, name)
	}
	t, err := c.inTars(paths...)
	if err != nil {
		return nil, err
	}
	what := "a tar of images with the class in their names"
	if len(paths) > 1 {
		what = fmt.Sprintf("%d tars of images with the class in their names", len(paths))
	}
	test := namedSplit(paths[0]) == "test"
	return c.newSplit(&suffixTarsLayout{files{transport: t, what: what, rule: bySuffix}, test}), nil
}

// suffixTarsLayout is the tars of one split.
type suffixTarsLayout struct {
	files
	test bool
}

func (l *suffixTarsLayout) unlabelled() bool { return l.test }

// suffixRule labels files by the ends of their names.
type suffixRule struct {
	index  map[string]int32 // wnid → label
	differ int              // validation images of another class than is known
}

func bySuffix(*Split) (labelRule, error) {
	return &suffixRule{index: classIndex(ilsvrcVal().classes)}, nil
}

// label is the label that a key says.
func (r *suffixRule) label(key string) (int32, bool) {
	if strings.HasPrefix(key, testNamePrefix) {
		return -1, true
	}
	label, ok := r.index[suffixClass(key)]
	return label, ok
}

func (r *suffixRule) take(f *file) (bool, error) {
	if f.folder {
		return false, nil
	}
	if f.label, f.labelled = r.label(f.key); !f.labelled {
		return false, f.errorf("the name does not end in one of ILSVRC2012's wnids, as those of other images do: move it elsewhere")
	}
	base, _, _ := cutLast(f.key, "_")
	if n, ok := valNumber(base + valNameSuffix); ok && ilsvrcVal().labels[n-1] != f.label {
		r.differ++
	}
	return true, nil
}

func (r *suffixRule) labels(s *Split) (labels, error) {
	if r.differ > 0 {
		s.note("%s validation images have another class in their names than is known of them", bytesize.Grouped(r.differ))
	}
	return labels{classes: ilsvrcVal().classes, of: r.label}, nil
}
