package shard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FindSets finds the sets that data means: data itself if it is a set, otherwise the sets in the folders right below
// it, whatever they are called. It returns their folders by split, as their manifests name it. Two sets of one split
// are an error, as is a set whose manifest is damaged; when there is none, the error wraps ErrNotSet and says what is
// there instead.
func FindSets(data string) (map[string]string, error) {
	m, err := ReadManifest(data)
	if err == nil {
		return map[string]string{m.Split: data}, nil
	}
	if !errors.Is(err, ErrNotSet) {
		return nil, err
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	sets := make(map[string]string)
	var seen []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // among them the sets that are being written
			continue
		}
		seen = append(seen, e.Name())
		path := filepath.Join(data, e.Name())
		if ok, err := isDir(path); err != nil || !ok {
			continue
		}
		m, err := ReadManifest(path)
		if errors.Is(err, ErrNotSet) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if other, ok := sets[m.Split]; ok {
			return nil, fmt.Errorf("shard: %s and %s are both sets of split %q: name the one to use", other, path, m.Split)
		}
		sets[m.Split] = path
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("shard: %s: %w, nor is any folder in it; it holds %s", data, ErrNotSet, summarize(seen))
	}
	return sets, nil
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
