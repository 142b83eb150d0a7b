package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/source/matfile"
)

const (
	metaName        = "meta.mat"
	groundTruthName = "ILSVRC2012_validation_ground_truth.txt"
	// devkitFileBytesMax bounds what is read of one of the devkit's files.
	devkitFileBytesMax = 64 << 20
)

// Devkit is what the ILSVRC2012 development kit says of the validation images.
type Devkit struct {
	Path string
	// Classes are the wnids of the leaf synsets (1,000 of them) in sorted order, the order of torchvision's labels.
	Classes []string
	// Labels[k] is the label of the k-th validation image in sorted order of names: the place in Classes of the wnid of the synset whose
	// ILSVRC2012_ID stands in line k of the ground truth.
	Labels []int32
}

// isDevkitName says that a file or folder is the development kit by its name.
func isDevkitName(name string) bool { return strings.HasPrefix(name, "ILSVRC2012_devkit") }

// labels gives each flat image its label by its place in sorted order.
func (d *Devkit) labels(path string, keys []string) (labels, error) {
	if len(keys) != len(d.Labels) {
		return labels{}, &FormatError{Path: path, Msg: fmt.Sprintf("%d files, but the ground truth in %s has %d lines: "+
			"a file too few or too many would shift every label behind it", len(keys), d.Path, len(d.Labels))}
	}
	l := newLabels(d.Classes)
	l.byKey = make(map[string]int32, len(keys))
	slices.Sort(keys)
	for k, key := range keys {
		if _, twice := l.byKey[key]; twice {
			return labels{}, &FormatError{Path: path, Entry: key, Msg: "occurs twice"}
		}
		l.byKey[key] = d.Labels[k]
	}
	return l, nil
}

// findDevkit is lookForDevkit where there must be one; what says for what, in the error.
func findDevkit(what string, folders []string) (*Devkit, error) {
	d, err := lookForDevkit(folders)
	if d != nil || err != nil {
		return d, err
	}
	return nil, &FormatError{Path: what, Msg: fmt.Sprintf("images without class folders need the labels of the ILSVRC2012 development kit, "+
		"and there is no ILSVRC2012_devkit_t12.tar.gz (nor that folder unpacked) in %s: put it there, or say --devkit PATH", strings.Join(folders, " or "))}
}

// lookForDevkit looks for the development kit in the folders and opens the first that it finds; nil: there is none.
func lookForDevkit(folders []string) (*Devkit, error) {
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder) // one that cannot be listed has nothing for us
		var candidates []string
		for _, e := range entries {
			if isDevkitName(e.Name()) {
				candidates = append(candidates, filepath.Join(folder, e.Name()))
			}
		}
		for _, p := range append(candidates, folder) {
			d, err := openDevkit(p)
			if err == nil || !errors.Is(err, errNoDevkit) && !errors.Is(err, errNotTar) {
				return d, err
			}
		}
	}
	return nil, nil
}

var errNoDevkit = errors.New("holds no " + metaName + " and " + groundTruthName)

// openDevkit reads the development kit from its tar.gz (or tar), from the folder that it unpacks to, or from the data folder in that.
func openDevkit(p string) (*Devkit, error) {
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	var meta, truth []byte
	if info.IsDir() {
		meta, truth, err = devkitFolder(p)
	} else {
		meta, truth, err = devkitTar(p)
	}
	if err != nil {
		return nil, err
	}
	if meta == nil || truth == nil {
		return nil, &FormatError{Path: p, Msg: "not a development kit", Err: errNoDevkit}
	}
	return parseDevkit(p, meta, truth)
}

func devkitFolder(p string) (meta, truth []byte, err error) {
	for _, sub := range []string{".", "data", "ILSVRC2012_devkit_t12/data"} {
		dir := filepath.Join(p, filepath.FromSlash(sub))
		meta, err = os.ReadFile(filepath.Join(dir, metaName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		truth, err = os.ReadFile(filepath.Join(dir, groundTruthName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return meta, truth, err
	}
	return nil, nil, nil
}

func devkitTar(p string) (meta, truth []byte, err error) {
	t, err := openTar(p)
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	for meta == nil || truth == nil {
		h, err := t.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		name := path.Base(h.Name)
		if h.Typeflag != tar.TypeReg || (name != metaName && name != groundTruthName) {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(t.tar, devkitFileBytesMax+1))
		if err != nil {
			return nil, nil, t.wrap(h.Name, err)
		}
		if len(data) > devkitFileBytesMax {
			return nil, nil, t.errorf(h.Name, "more than %d bytes", devkitFileBytesMax)
		}
		if name == metaName {
			meta = data
		} else {
			truth = data
		}
	}
	return meta, truth, nil
}

// parseDevkit joins the synsets with the ground truth.
func parseDevkit(p string, meta, truth []byte) (*Devkit, error) {
	leaves, err := parseSynsets(meta)
	if err != nil {
		return nil, &FormatError{Path: p, Entry: metaName, Msg: "cannot be read", Err: err}
	}
	d := &Devkit{Path: p}
	for _, wnid := range leaves {
		d.Classes = append(d.Classes, wnid)
	}
	slices.Sort(d.Classes)
	if twice := firstRepeat(d.Classes); twice != "" {
		return nil, &FormatError{Path: p, Entry: metaName, Msg: "two leaf synsets have the wnid " + twice}
	}
	l := newLabels(d.Classes)
	sc := bufio.NewScanner(bytes.NewReader(truth))
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		id, err := strconv.Atoi(text)
		wnid, ok := leaves[id]
		if err != nil || !ok {
			return nil, &FormatError{Path: p, Entry: groundTruthName, Msg: fmt.Sprintf("line %d: %.40q is not the ID of a leaf synset", line, text)}
		}
		d.Labels = append(d.Labels, l.index[wnid])
	}
	if err := sc.Err(); err != nil {
		return nil, &FormatError{Path: p, Entry: groundTruthName, Msg: "cannot be read", Err: err}
	}
	return d, nil
}

// parseSynsets returns the wnid of each leaf synset (one without children) by its ILSVRC2012_ID.
func parseSynsets(meta []byte) (map[int]string, error) {
	s, err := matfile.ReadStruct(meta, "synsets")
	if err != nil {
		return nil, err
	}
	id, wnid, children := s.Field("ILSVRC2012_ID"), s.Field("WNID"), s.Field("num_children")
	if id < 0 || wnid < 0 || children < 0 {
		return nil, fmt.Errorf("synsets have the fields %q, but ILSVRC2012_ID, WNID and num_children are needed", s.Fields)
	}
	leaves := make(map[int]string)
	for i, row := range s.Rows {
		if len(row[id].Numbers) != 1 || len(row[children].Numbers) != 1 || row[wnid].Text == "" {
			return nil, fmt.Errorf("synset %d has no ID, WNID or number of children", i+1)
		}
		if row[children].Numbers[0] != 0 {
			continue
		}
		n := int(row[id].Numbers[0])
		if float64(n) != row[id].Numbers[0] || leaves[n] != "" {
			return nil, fmt.Errorf("synset %d has the ID %v, which is no whole number or another's", i+1, row[id].Numbers[0])
		}
		leaves[n] = row[wnid].Text
	}
	return leaves, nil
}

// firstRepeat returns a string that occurs twice in a sorted list, or "".
func firstRepeat(sorted []string) string {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i]
		}
	}
	return ""
}
