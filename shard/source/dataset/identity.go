package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Digest tells a dataset from any other by its samples, and by the files that are left out: their keys, labels, sizes and fields, in
// any order. Files beside these are not in it.
type Digest struct {
	Dates bool // dates and ETags are in it, which a copy of the dataset may have changed
	Items int
	sums  map[int32]uint64 // sums of the items' hashes, by Item.Label
	text  []byte
}

// Add takes an item during a walk over the split.
func (d *Digest) Add(s *Split, it *transport.Item) error {
	size, version, err := it.Pin()
	if err != nil {
		return err
	}
	if !d.Dates {
		version = ""
	}
	d.text = append(append(d.text[:0], it.Key...), 0) // no fmt, for a million files
	d.text = append(append(append(strconv.AppendInt(d.text, size, 10), ' '), version...), 0)
	if s.Streamed() {
		d.text = append(d.text, it.Fields...)
	} else if d.text, err = s.appendNamed(d.text, it.Key); err != nil {
		return err
	}
	if s.Targets != nil && !s.Streamed() {
		if d.text, err = s.Targets.Pin(d.text, it.Key, d.Dates); err != nil {
			return err
		}
	}
	if d.sums == nil {
		d.sums = make(map[int32]uint64)
	}
	sum := sha256.Sum256(d.text)
	d.sums[it.Label] += binary.LittleEndian.Uint64(sum[:])
	d.Items++
	return nil
}

// Sum is the digest, after the walk.
func (d *Digest) Sum(s *Split) string {
	sums := make(map[int32]uint64) // keyed by label
	for of, sum := range d.sums {
		sums[s.Label(of)] += sum
	}
	h := sha256.New()
	for _, label := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%d %x ", label, sums[label])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Identity tells a dataset that is read where it lies from any other, also from a later state of itself. It covers all that samples and
// labels come from: classes, the contents of files that name labels, and each file that is a sample or is left out. Of these it takes
// name, size, and date or ETag. It reads no image. A split that is not Streamed can't be walked over again.
func (s *Split) Identity(ctx context.Context) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q ", s.Name, s.Format, s.Root())
	for _, file := range s.Inputs() {
		size, version, err := transport.Pinned(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %d %s ", file, size, version)
	}
	for _, file := range s.LabelFiles {
		f, err := transport.FileSystem{}.Open(file)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, " %q ", file)
	}
	if s.Targets != nil {
		fields, err := json.Marshal(s.Fields())
		if err != nil {
			return "", err
		}
		h.Write(fields)
	}
	if !s.Streamed() {
		d := Digest{Dates: true}
		if err := s.Walk(ctx, func(it transport.Item) error { return d.Add(s, &it) }); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %q", d.Sum(s), s.Classes())
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// A Selection chooses samples by their keys: only those in one file, or all except those in another. The zero value takes all.
type Selection struct {
	only, exclude keyList
}

// keyList holds the keys in a file, one a line; the value says whether a sample has the key. Without a file there is no map.
type keyList struct {
	path  string
	keys  map[string]bool
	tried *[]string // the first keys of samples that it lacks
}

// Only takes only the samples with the keys in a file, one a line.
func (s *Selection) Only(path string) (err error) {
	s.only, err = readKeyList(path)
	return err
}

// Exclude leaves out the samples with the keys in a file, one a line.
func (s *Selection) Exclude(path string) (err error) {
	s.exclude, err = readKeyList(path)
	return err
}

func readKeyList(path string) (l keyList, err error) {
	if err := storage.CheckSecret(path); err != nil {
		return l, err
	}
	text, err := transport.ReadLines(transport.FileSystem{}, path, "keys of samples")
	if err != nil {
		return l, err
	}
	l = keyList{path: path, keys: make(map[string]bool), tried: new([]string)}
	for line := range strings.Lines(text) {
		if key := strings.TrimRight(line, "\r\n"); key != "" {
			l.keys[key] = false
		}
	}
	if len(l.keys) == 0 {
		return l, transport.Refuse(path, "names no keys of samples, one a line")
	}
	return l, nil
}

func (l *keyList) has(key string) bool {
	_, ok := l.keys[key]
	if ok {
		l.keys[key] = true
	} else if l.tried != nil && len(*l.tried) < keysNamed {
		*l.tried = append(*l.tried, key)
	}
	return ok
}

// Takes says whether a sample is taken. Only one goroutine may call it at a time.
func (s *Selection) Takes(key string) bool {
	return (s.only.keys == nil || s.only.has(key)) && !s.exclude.has(key)
}

const keysNamed = 3 // how many of the samples' keys a message shows as examples

// Missed says that no sample has a key of those to take, and what keys there are; otherwise "".
func (s *Selection) Missed() string {
	if s.only.keys == nil || slices.Contains(slices.Collect(maps.Values(s.only.keys)), true) {
		return ""
	}
	return fmt.Sprintf("%s names no key that is here: keys are such as %s", s.only.path, strings.Join(*s.only.tried, ", "))
}

// All says whether all samples are taken.
func (s *Selection) All() bool { return s.only.keys == nil && s.exclude.keys == nil }

// Digest identifies a selection by its keys; it is "" for all samples.
func (s *Selection) Digest() string {
	if s.All() {
		return ""
	}
	h := sha256.New()
	for _, l := range []keyList{s.only, s.exclude} {
		if l.keys == nil {
			fmt.Fprintln(h)
		}
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			fmt.Fprintf(h, "%q ", key)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Notes names the keys that no sample has.
func (s *Selection) Notes() (notes []string) {
	for _, l := range []keyList{s.only, s.exclude} {
		var missing []string
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			if !l.keys[key] {
				missing = append(missing, key)
			}
		}
		if len(missing) > 0 {
			notes = append(notes, fmt.Sprintf("%s that %s names %s not here (%s)", bytesize.Counted(len(missing), "key", "keys"), l.path,
				map[bool]string{true: "is", false: "are"}[len(missing) == 1], transport.SomeNames(missing)))
		}
	}
	return notes
}
