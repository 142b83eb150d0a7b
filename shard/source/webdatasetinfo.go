package source

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// infoNames are the names of the file beside timm's tars of WebDataset that describes each split:
//
// {"splits": {"train": {"name": "train", "filenames": ["imagenet1k-train-0000.tar", …], "shard_lengths": [1252, …],
// "num_samples": 1281167},
//
//	"validation": {…, "alt_label": "alt_label"}}}
var infoNames = []string{"_info.json", "info.json"}

// wdsInfo describes one split.
type wdsInfo struct {
	from         string
	Filenames    []string `json:"filenames"`
	ShardLengths []int    `json:"shard_lengths"`
	NumSamples   int      `json:"num_samples"`
	AltLabel     string   `json:"alt_label"` // the key in a sample's JSON that holds the label
}

// findInfo reads the description of a split from the file in one of the folders; nil if there is none.
func findInfo(folders []string, split string) (*wdsInfo, error) {
	for _, folder := range folders {
		for _, name := range infoNames {
			file := filepath.Join(folder, name)
			text, err := transport.ReadLines(transport.FileSystem{}, file, "numbers of samples")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			var all struct {
				Splits map[string]*wdsInfo `json:"splits"`
			}
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				if name == infoNames[0] {
					return nil, &transport.FormatError{Path: file, Msg: "cannot be read as timm's description of the tars: " +
						"correct or remove it", Err: err}
				}
				continue
			}
			for key, info := range all.Splits {
				if info != nil && transport.NamedSplit(key) == split {
					info.from = file
					return info, nil
				}
			}
		}
	}
	return nil, nil
}

// check compares the tars with those in the file, and returns the number of their samples; 0 if the file does not say.
func (i *wdsInfo) check(tars []string, whole bool) (samples int, err error) {
	if len(i.Filenames) != len(i.ShardLengths) {
		return 0, transport.Refuse(i.from, "names %d tars and the samples of %d: correct or remove it", len(i.Filenames),
			len(i.ShardLengths))
	}
	if len(i.Filenames) == 0 {
		return i.NumSamples, nil
	}
	lengths := make(map[string]int, len(i.Filenames)) // by name; in the end those of the missing tars
	for k, name := range i.Filenames {
		lengths[filepath.Base(name)] = i.ShardLengths[k]
	}
	for _, tar := range tars {
		n, ok := lengths[filepath.Base(tar)]
		if !ok {
			return 0, nil // the tars were written anew
		}
		samples += n
		delete(lengths, filepath.Base(tar))
	}
	missing := slices.Sorted(maps.Keys(lengths))
	if whole && len(missing) > 0 {
		return samples, transport.Refuse(i.from, "names %d tars, of which %d are not here (%s): get them, or give the tars that are meant",
			len(i.Filenames), len(missing), transport.SomeNames(missing)).Or(remedy.Truncated)
	}
	return samples, nil
}

// noteSamples compares the number of samples with what the file says.
func (i *wdsInfo) noteSamples(s *dataset.Split, want, got int) {
	switch {
	case want == 0:
		s.Note("%s says nothing of these tars", i.from)
	case want == got:
		s.Note("there are %s samples, as %s says", bytesize.Grouped(got), filepath.Base(i.from))
	default:
		s.Note("%s says %s samples, and here are %s", i.from, bytesize.Grouped(want), bytesize.Grouped(got))
	}
}

// label is the place of the labels in the form of --label, if it is not .cls.
func (i *wdsInfo) label() string {
	if i == nil || i.AltLabel == "" {
		return ""
	}
	return dataset.JSONPrefix + strings.TrimPrefix(i.AltLabel, dataset.JSONPrefix)
}
