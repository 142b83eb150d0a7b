package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

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

// keysNamed is how many keys of samples a message names.
const keysNamed = 3

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
