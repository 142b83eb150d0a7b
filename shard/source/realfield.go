package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// Two more places where fields of images in folders come from: the image's own path, and a list for ILSVRC2012's validation images.

const (
	// pathSource is "path.1", the first folder of a key, as --field severity=path.2:int64 wants it of ImageNet-C.
	pathSource = "path."
	// valFileSource is "@real.json", a JSON array with a value for each of ILSVRC2012's validation images, in their order, as that of ReaL labels
	// (Beyer et al., "Are we done with ImageNet?", 2020), which are lists: --field real=@real.json:multihot[1000].
	valFileSource = "@"
)

// bindOther completes a field that no sidecar has; ok is false for one that may.
func (f *Field) bindOther() (ok bool, err error) {
	if file, is := strings.CutPrefix(f.Source, valFileSource); is {
		if f.Type == "" {
			f.Type = shard.JSON
		}
		f.valValues, err = readValValues(file)
		return true, err
	}
	level, is := strings.CutPrefix(f.Source, pathSource)
	if !is {
		return false, nil
	}
	if f.pathLevel, err = strconv.Atoi(level); err != nil || f.pathLevel < 1 || f.pathLevel > ClassesFromMax {
		return true, f.errorf("%s: the folders of a path are %s1 to %s%d", f.Source, pathSource, pathSource, ClassesFromMax)
	}
	if f.Type == "" {
		f.Type = shard.Text
	}
	return true, nil
}

// other says that the values come from no sidecar.
func (f *Field) other() bool { return f.valValues != nil || f.pathLevel > 0 }

// appendOther appends the value of a key.
func (f *Field) appendOther(dst []byte, key string) ([]byte, error) {
	if f.pathLevel > 0 {
		folder, _, ok := keyClass(key, f.pathLevel)
		if !ok {
			return dst, f.errorf("%s lies in no %d folders", key, f.pathLevel)
		}
		return f.appendText(dst, folder)
	}
	n, ok := valNumber(path.Base(key))
	if !ok {
		return dst, f.errorf("%s is none of ILSVRC2012's validation images, of which %s has the values", key, f.Source)
	}
	return f.appendJSON(dst, f.valValues[n-1])
}

// valValues has a value for each of the validation images.
type valValues [valImages]json.RawMessage

// readValValues reads an array of them.
func readValValues(file string) (*valValues, error) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > linesBytesMax {
		return nil, &FormatError{Path: file, Msg: fmt.Sprintf("no regular file of at most %d bytes, with values of the validation images", linesBytesMax), Err: err}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var values []json.RawMessage
	if err := json.Unmarshal(bytes.TrimSpace(data), &values); err != nil {
		return nil, &FormatError{Path: file, Msg: "is no JSON array", Err: err}
	}
	if len(values) != valImages {
		return nil, &FormatError{Path: file, Msg: fmt.Sprintf("has %d values, and there are %d validation images, of which each has one", len(values), valImages)}
	}
	return (*valValues)(values), nil
}
