package cliutil

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
)

// FindData searches a path for shard sets, and returns their folders by split. Without a set it returns the splits of
// an unpacked dataset. Several paths are files of one dataset.
func FindData(paths []string, options source.Options) (sets map[string]string, splits []*source.Split, err error) {
	if slices.Contains(paths, source.StandardInput) {
		return nil, nil, Usagef("standard input can be read only once: build it, or save it as a file")
	}
	if len(paths) > 1 {
		splits, err = source.OpenAll(paths, options)
		return nil, splits, err
	}
	sets, err = shard.FindSets(paths[0])
	// A dataset may be a tar instead of a folder, or a pattern instead of an existing file.
	if err == nil || !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrNotExist) {
		return sets, nil, err
	}
	splits, why := source.OpenAll(paths, options)
	if why != nil {
		return nil, nil, fmt.Errorf("%v; and no dataset to pack: %w", err, why)
	}
	return nil, splits, nil
}

// ChooseSplit chooses one of the splits at a path: the wanted one, the only one, or train.
func ChooseSplit(path, wanted string, names []string) (string, error) {
	switch {
	case wanted != "" && slices.Contains(names, wanted):
		return wanted, nil
	case wanted != "":
		return "", fmt.Errorf("%s has no split %q, only %s", path, wanted, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, "train"):
		return "train", nil
	}
	return "", fmt.Errorf("%s holds %d splits, %s: choose one with --split", path, len(names), strings.Join(names, ", "))
}
