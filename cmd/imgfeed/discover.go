package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// dataEnv names the environment variable with the folder of the shard sets.
const dataEnv = "IMGFEED_DATA"

// A place is a location that discover searches.
type place struct {
	why  string // "argument", "$IMGFEED_DATA", "current folder", "usual place"
	path string
	err  error // why it holds no set
}

func (p place) String() string { return fmt.Sprintf("%s (%s)", p.path, p.why) }

// A notFoundError means that no place holds a shard set.
type notFoundError struct{ places []place }

func (e *notFoundError) Error() string {
	var b strings.Builder
	b.WriteString("no shard set found; looked in")
	for _, p := range e.places {
		fmt.Fprintf(&b, "\n  %s: %v", p.why, p.err)
	}
	b.WriteString("\nGive a folder made by `imgshard build`, as the argument or in $" + dataEnv)
	return b.String()
}

// discover searches for shard sets in arg, or, without it, in $IMGFEED_DATA, the current folder and /data, in this
// order. It returns the sets of the first place with a set, and the places before it. Damaged sets end the search too;
// they are an error if there is no intact one.
func discover(client *storage.Client, arg string) (found shard.Found, at place, skipped []place, err error) {
	for _, place := range places(arg) {
		found, err := shard.FindIn(client, place.path)
		if err == nil && len(found.Sets) == 0 {
			err = found.Err()
		}
		switch {
		case err == nil:
			return found, place, skipped, nil
		case storage.IsRemote(place.path):
			return shard.Found{}, place, skipped, err
		case !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOTDIR):
			return shard.Found{}, place, skipped, err
		}
		place.err = err
		skipped = append(skipped, place)
	}
	return shard.Found{}, place{}, nil, &notFoundError{places: skipped}
}

// discoverAll finds the sets at one place like discover, or joins those at several. find repeats the search.
func discoverAll(client *storage.Client, args []string, keepApart bool) (
	find func() (shard.Found, error), found shard.Found, at place, skipped []place, err error,
) {
	if len(args) < 2 {
		found, at, skipped, err = discover(client, strings.Join(args, ""))
		return func() (shard.Found, error) { return shard.FindIn(client, at.path) }, found, at, skipped, err
	}
	var paths []string
	for _, arg := range args {
		paths = append(paths, absolute(arg))
	}
	find = func() (shard.Found, error) {
		found, err := shard.FindJoined(client, paths)
		if found.Apart = keepApart; err == nil && len(found.Sets) == 0 {
			err = found.Err()
		}
		return found, err
	}
	found, err = find()
	return find, found, place{why: "joined", path: strings.Join(paths, " + ")}, nil, err
}

// apartHelp is the help of --classes-apart.
const apartHelp = "with several SETs: keep classes of the same name apart"

func places(arg string) []place {
	if arg != "" {
		return []place{{why: "argument", path: absolute(arg)}}
	}
	var list []place
	if dir := os.Getenv(dataEnv); dir != "" {
		list = append(list, place{why: "$" + dataEnv, path: absolute(dir)})
	}
	return append(list, place{why: "current folder", path: absolute(".")}, place{why: "usual place", path: "/data"})
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && !storage.IsRemote(path) {
		return abs
	}
	return path
}
