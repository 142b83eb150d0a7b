package labelrule

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	valImages     = 50_000
	ValNamePrefix = "ILSVRC2012_val_"
	valNameSuffix = ".JPEG"
	kaggleHeader  = "ImageId"
	valNameWanted = "the validation images of ILSVRC2012 are called ILSVRC2012_val_00000001.JPEG to ILSVRC2012_val_00050000.JPEG"
)

// valTable is, compressed by gzip, for each image the low byte of its label, then for each its high byte. go test -run TestValTable -update
// FILE writes it from a file with the wnid of each image.
//
//go:embed ilsvrc2012-val.gz
var valTable []byte

// ValLabels says which class each of the validation images has.
type ValLabels struct {
	from    string // the file; "" for the program's own table
	classes []string
	labels  []int32 // the label of image i+1; -1 if unknown
}

// ILSVRCVal is the program's own table. Labels are, as anywhere in PyTorch, the places of the wnids in sorted order.
var ILSVRCVal = sync.OnceValue(func() *ValLabels {
	zr, err := gzip.NewReader(bytes.NewReader(valTable))
	if err != nil {
		panic(err)
	}
	data, err := io.ReadAll(zr)
	if err != nil || len(data) != 2*valImages {
		panic(fmt.Sprintf("source: %d bytes in the table of ILSVRC2012's validation images: %v", len(data), err))
	}
	v := &ValLabels{classes: wordnet.Wnids(), labels: make([]int32, valImages)}
	low, high := data[:valImages], data[valImages:]
	for i := range v.labels {
		v.labels[i] = int32(low[i]) | int32(high[i])<<8
	}
	return v
})

// OpenValLabels reads the file that was given, or takes the program's own table.
func OpenValLabels(opts dataset.Options) (*ValLabels, error) {
	switch {
	case opts.ValLabels != "":
		text, err := transport.ReadLines(transport.FileSystem{}, opts.ValLabels, "labels of the validation images")
		if err != nil {
			return nil, err
		}
		return parseValLabels(opts.ValLabels, text)
	case opts.ValText != "":
		return parseValLabels(opts.ValFrom, opts.ValText)
	}
	return ILSVRCVal(), nil
}

// valNumber is the number in the name of a validation image.
func valNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, ValNamePrefix)
	digits, ok2 := strings.CutSuffix(digits, valNameSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	return int(n), ok && ok2 && len(digits) == 8 && err == nil && n >= 1 && n <= valImages
}

// Find returns the label of an image; its error says what is wrong with the name.
func (v *ValLabels) Find(name string) (int32, error) {
	n, ok := valNumber(name)
	switch {
	case !ok:
		return -1, fmt.Errorf("an image without a class folder, whose label is unknown: %s; sort others into a folder for each class, "+
			"or pack them without labels by --no-labels", valNameWanted)
	case v.labels[n-1] < 0:
		return -1, fmt.Errorf("%s does not say its label", v.from)
	}
	return v.labels[n-1], nil
}

// valRule labels the validation images by their numbers.
type valRule struct {
	*ValLabels
	s      *dataset.Split
	seen   map[string]bool
	counts []int // images of each label
	differ int   // images with a class that differs from ILSVRC2012's
	wrong  int   // those with a wrong class of ILSVRC2012
}

// Rule labels the validation images of ILSVRC2012 by their numbers.
func (v *ValLabels) Rule(s *dataset.Split) (Rule, error) {
	return &valRule{ValLabels: v, s: s, seen: make(map[string]bool), counts: make([]int, len(v.classes))}, nil
}

func (r *valRule) Take(f *transport.File) (bool, error) {
	if f.Folder {
		if f.Tar == nil {
			r.s.Note("folder %s among the images is left out", f.Name)
		}
		return false, fs.SkipDir
	}
	var err error
	if f.Label, err = r.Find(f.Key); err != nil {
		return false, f.Errorf("%v", err)
	}
	if r.seen[f.Key] {
		return false, f.Errorf("occurs twice")
	}
	r.seen[f.Key], f.Labelled = true, true
	r.counts[f.Label]++
	n, _ := valNumber(f.Key)
	if known := ILSVRCVal(); r.classes[f.Label] != known.classes[known.labels[n-1]] {
		r.differ++
		if wordnet.Words(r.classes[f.Label]) != "" { // not a class of the user's own
			r.wrong++
		}
	}
	return true, nil
}

// mostDiffer says that most of the validation images have a wrong class, which must be a mistake.
func mostDiffer(differ, of int) bool { return of >= 20 && 2*differ > of }

func (r *valRule) Labels(s *dataset.Split) (dataset.Labels, error) {
	switch {
	case r.from != "" && mostDiffer(r.wrong, len(r.seen)) && !s.Options.ForceClasses:
		return dataset.Labels{}, transport.Refuse(r.from, "%d of the %d images have another class there than in ILSVRC2012, "+
			"as where its lines have another order: leave --val-labels "+
			"away, as the program knows the labels, or take these all the same by --force-classes", r.wrong, len(r.seen))
	case r.from != "" && r.differ == 0:
		s.Note("the labels are those of %s, which agrees with ILSVRC2012", r.from)
	case r.from != "":
		s.Note("the labels are those of %s, of which %d differ from ILSVRC2012's", r.from, r.differ)
	}
	return dataset.Labels{Classes: r.classes, Used: dataset.UsedClasses(r.classes, r.counts), ByKey: func(key string) (int32, bool) {
		label, err := r.Find(key)
		return label, err == nil
	}}, nil
}

// parseValLabels reads a file of labels. Each line is one of
//
//	n01751748                                           the wnid of the first image, the second, …
//	ILSVRC2012_val_00000001.JPEG n01751748              an image and its wnid
//	ILSVRC2012_val_00000001.JPEG 65                     an image and its label, as Caffe's val.txt has them
//	mv ILSVRC2012_val_00000001.JPEG n01751748/          a line of valprep.sh, whose mkdir, comments and empty lines are skipped
//	ILSVRC2012_val_00000001,n01751748 85 1 499 272      an image, its wnid and boxes, as Kaggle's LOC_val_solution.csv has them
func parseValLabels(p, text string) (*ValLabels, error) {
	classOf := make([]string, valImages) // a class, or a label as text
	inOrder, line := 0, 0
	for s := range strings.Lines(text) {
		line++
		fields := strings.Fields(s)
		if image, said, ok := strings.Cut(strings.TrimSpace(s), ","); ok {
			if line == 1 && image == kaggleHeader {
				continue
			}
			fields = append([]string{strings.TrimSuffix(image, valNameSuffix) + valNameSuffix}, strings.Fields(said)...)
			fields = fields[:min(2, len(fields))]
		}
		script := len(fields) > 0 && (strings.HasPrefix(fields[0], "#") || fields[0] == "mkdir")
		if script || len(fields) == 0 && inOrder == 0 {
			continue
		}
		number, class, err := parseValLine(fields, inOrder)
		if err != nil {
			return nil, transport.Refuse(p, "line %d: %v", line, err)
		}
		if len(fields) == 1 {
			inOrder++
		}
		if classOf[number-1] != "" {
			return nil, transport.Refuse(p, "line %d: a second label for image %d", line, number)
		}
		classOf[number-1] = class
	}
	v := &ValLabels{from: p, labels: make([]int32, valImages)}
	return v, v.resolve(classOf)
}

// parseValLine returns the number of an image and what a line says of it; inOrder is how many lines before had no name.
func parseValLine(fields []string, inOrder int) (number int, class string, err error) {
	if len(fields) > 0 && fields[0] == "mv" {
		fields = fields[1:]
	}
	switch len(fields) {
	case 1:
		number, class = inOrder+1, fields[0]
		if number > valImages {
			return 0, "", fmt.Errorf("there are only %d validation images", valImages)
		}
		if _, whole, _ := WholeNumber(class); whole {
			return 0, "", fmt.Errorf("%.40q is a number alone, as in the development kit's ground truth, whose IDs are no labels: "+
				"leave --val-labels away, or give wnids", class)
		}
	case 2:
		ok := false
		if number, ok = valNumber(path.Base(fields[0])); !ok {
			return 0, "", fmt.Errorf("%.60q: %s", fields[0], valNameWanted)
		}
		class = strings.TrimSuffix(strings.TrimPrefix(fields[1], "./"), "/")
	default:
		return 0, "", fmt.Errorf("%d words; wanted: a wnid, or an image and its wnid or label", len(fields))
	}
	if reason := transport.NameReason(class); reason != "" {
		return 0, "", fmt.Errorf("the class cannot be used because %s", reason)
	}
	return number, class, nil
}

// resolve turns what the lines say into labels: of ILSVRC2012's classes where they are these, else of those that occur.
func (v *ValLabels) resolve(classOf []string) error {
	v.classes = wordnet.Wnids()
	known := dataset.ClassIndex(v.classes)
	given, numbers, foreign := make(map[string]bool), false, false
	for _, class := range classOf {
		if class != "" {
			_, whole, _ := WholeNumber(class)
			_, ok := known[class]
			given[class], numbers, foreign = true, numbers || whole, foreign || !ok
		}
	}
	if len(given) == 0 {
		return transport.Refuse(v.from, "has no labels")
	}
	if foreign && !numbers {
		v.classes = slices.Sorted(maps.Keys(given))
		known = dataset.ClassIndex(v.classes)
	}
	for i, class := range classOf {
		label, ok := known[class]
		switch n, whole, _ := WholeNumber(class); {
		case class == "":
			label = -1
		case numbers && (!whole || n < 0 || int(n) >= len(v.classes)):
			return transport.Refuse(v.from, "image %d: %.40q is no label from 0 to %d, as other lines have", i+1, class, len(v.classes)-1)
		case !ok:
			label = n
		}
		v.labels[i] = label
	}
	return nil
}
