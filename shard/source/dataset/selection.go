package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Selection says which samples are taken, by their keys: those that one file names, or all but those that another names. The zero value takes all.
type Selection struct {
	only, exclude *keyList
}

// keyList is the keys in a file, one a line; the value says that the key was met.
type keyList struct {
	flag, path string
	keys       map[string]bool
}

// Only takes the samples alone whose keys a file names, one a line.
func (s *Selection) Only(path string) (err error) {
	s.only, err = readKeyList("--only", path)
	return err
}

// Exclude leaves out the samples whose keys a file names, one a line.
func (s *Selection) Exclude(path string) (err error) {
	s.exclude, err = readKeyList("--exclude", path)
	return err
}

func readKeyList(flag, path string) (*keyList, error) {
	if err := storage.CheckSecret(path); err != nil {
		return nil, err
	}
	text, err := transport.ReadLines(transport.FileSystem{}, path, "keys of samples")
	if err != nil {
		return nil, err
	}
	l := &keyList{flag: flag, path: path, keys: make(map[string]bool)}
	for line := range strings.Lines(text) {
		if key := strings.TrimRight(line, "\r\n"); key != "" {
			l.keys[key] = false
		}
	}
	if len(l.keys) == 0 {
		return nil, transport.Refuse(path, "%s: the file names no keys, one a line", flag)
	}
	return l, nil
}

func (l *keyList) has(key string) bool {
	if l == nil {
		return false
	}
	met, ok := l.keys[key]
	if ok && !met {
		l.keys[key] = true
	}
	return ok
}

// Takes says that a sample is taken. It is not to be called from several goroutines at once.
func (s *Selection) Takes(key string) bool {
	return (s.only == nil || s.only.has(key)) && !s.exclude.has(key)
}

// All says that all samples are taken.
func (s *Selection) All() bool { return s.only == nil && s.exclude == nil }

// Digest tells selections apart by their keys; "" is that of all samples.
func (s *Selection) Digest() string {
	if s.All() {
		return ""
	}
	h := sha256.New()
	for _, l := range []*keyList{s.only, s.exclude} {
		if l == nil {
			fmt.Fprintln(h)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			fmt.Fprintf(h, "%q ", key)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Notes name keys that were not met.
func (s *Selection) Notes() (notes []string) {
	for _, l := range []*keyList{s.only, s.exclude} {
		if l == nil {
			continue
		}
		var unmet []string
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			if !l.keys[key] {
				unmet = append(unmet, key)
			}
		}
		if len(unmet) > 0 {
			notes = append(notes, fmt.Sprintf("%s that %s names %s not here (%s)", bytesize.Counted(len(unmet), "key", "keys"), l.path,
				map[bool]string{true: "is", false: "are"}[len(unmet) == 1], transport.SomeNames(unmet)))
		}
	}
	return notes
}

// Resolve turns the indices of samples into keys, of which there are n: a file whose lines are all numbers names samples by their indices, unless all
// of them are keys.
func (s *Selection) Resolve(n int, key func(i int) (string, error)) error {
	for _, l := range []*keyList{s.only, s.exclude} {
		if l == nil || slices.ContainsFunc(slices.Collect(maps.Keys(l.keys)), func(k string) bool { return strings.Trim(k, "0123456789") != "" }) {
			continue
		}
		keys, resolved, indices := 0, make(map[string]bool, len(l.keys)), map[int]bool{}
		for text := range l.keys {
			if i, err := strconv.Atoi(text); err == nil { // "007" is 7
				indices[i] = true
			}
		}
		for i := range n {
			k, err := key(i)
			if err != nil {
				return err
			}
			if _, ok := l.keys[k]; ok {
				keys++
			}
			if indices[i] {
				resolved[k] = false
			}
		}
		switch {
		case keys == len(l.keys):
		case len(resolved) < len(l.keys):
			return transport.Refuse(l.path, "%s: %d of its %d indices are not from 0 to %d", l.flag, len(l.keys)-len(resolved), len(l.keys), n-1)
		default:
			l.keys = resolved
		}
	}
	return nil
}
