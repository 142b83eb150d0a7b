package main

import (
	"context"
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

// eachEntry calls do with what the index knows of every sample that is here, in the order of their index.
func eachEntry(ctx context.Context, set *shard.Set, do func(i int, e *shard.Entry) error) error {
	const some = 1 << 13
	entries := make([]shard.Entry, min(some, set.Len()))
	for first := 0; first < set.Len(); first += some {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		piece := entries[:min(some, set.Len()-first)]
		if err := set.Entries(first, piece); err != nil {
			return err
		}
		for k := range piece {
			if i := first + k; set.Has(i % set.Partitions()) {
				if err := do(i, &piece[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
