package shard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Found is what a folder holds.
type Found struct {
	Sets    map[string]string // the sets' folders by split, as their manifests name it
	Damaged []DamagedSet      // sets whose manifest cannot be read, so that not even their split is known
}

// Err joins what is wrong with the damaged sets; nil if there are none.
func (f *Found) Err() error {
	var errs []error
	for _, d := range f.Damaged {
		errs = append(errs, d.Err)
	}
	return errors.Join(errs...)
}

// FindSets finds the sets that data means, as FindAll does. A damaged one is an error.
func FindSets(data string) (map[string]string, error) {
	found, err := FindAll(data)
	if err == nil {
		err = found.Err()
	}
	if err != nil {
		return nil, err
	}
	return found.Sets, nil
}

// FindAll finds the sets that data means: data itself if it is a set, otherwise the sets in the folders right below it,
// whatever they are called. Two sets of one split are an error. When there is none, not even a damaged one, the error
// wraps ErrNotSet and says what is there instead.
func FindAll(data string) (Found, error) {
	found := Found{Sets: make(map[string]string)}
	if is, err := found.add(data); is || err != nil {
		return found, err
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		return found, fmt.Errorf("shard: %w", err)
	}
	var others []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // among them the sets that are being written
			continue
		}
		others = append(others, e.Name())
		path := filepath.Join(data, e.Name())
		if ok, err := isDir(path); err != nil || !ok {
			continue
		}
		if _, err := found.add(path); err != nil {
			return found, err
		}
	}
	if len(found.Sets)+len(found.Damaged) == 0 {
		return found, fmt.Errorf("shard: %s: %w, nor is any folder in it; it holds %s", data, ErrNotSet, summarize(others))
	}
	return found, nil
}

// add notes the set in dir and reports whether there is one.
func (f *Found) add(dir string) (bool, error) {
	m, err := checkManifest(dir)
	switch {
	case errors.Is(err, ErrNotSet):
		return false, nil
	case err != nil:
		f.Damaged = append(f.Damaged, DamagedSet{Dir: dir, Err: err})
		return true, nil
	}
	if other, ok := f.Sets[m.Split]; ok {
		return true, fmt.Errorf("shard: %s and %s are both sets of split %q: name the one to use", other, dir, m.Split)
	}
	f.Sets[m.Split] = dir
	return true, nil
}

// summarize names the first few of names.
func summarize(names []string) string {
	const most = 8
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return "nothing"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
