package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// setDir returns the folder of the one set that path means: itself, or the only set in it.
func setDir(path string) (string, error) {
	sets, err := shard.FindSets(path)
	if err != nil {
		return "", err
	}
	dirs := slices.Sorted(maps.Values(sets))
	if len(dirs) > 1 {
		return "", usageError{fmt.Errorf("%s holds %d sets, name one: %s", path, len(dirs), strings.Join(dirs, ", "))}
	}
	return dirs[0], nil
}

// openLazily opens the one set that path means for a look at some of its samples: a shard is opened when it is asked for.
func openLazily(path string) (*shard.Set, error) {
	dir, err := setDir(path)
	if err != nil {
		return nil, err
	}
	return shard.OpenLazily(dir)
}

// openSet opens the one set that path means.
func openSet(path string) (*shard.Set, error) {
	dir, err := setDir(path)
	if err != nil {
		return nil, err
	}
	return shard.OpenSet(dir)
}
