package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// dataEnv names the environment variable with the folder of the shard sets.
const dataEnv = "IMGFEED_DATA"

// A place is a location that discover searches.
type place struct {
	why   string // "argument", "$IMGFEED_DATA", "current folder", "usual place"
	path  string
	found string // description of its content
}

// A notFoundError means that no place holds a shard set.
type notFoundError struct{ places []place }

func (e *notFoundError) Error() string {
	var b strings.Builder
	b.WriteString("no shard set found; looked in")
	for _, p := range e.places {
		fmt.Fprintf(&b, "\n  %s (%s): %s", p.path, p.why, p.found)
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
		place.found = describe(place.path)
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

// describe describes a path that holds no set.
func describe(path string) string {
	const namesMax = 5
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err != nil:
		return err.Error()
	case !info.IsDir():
		return fmt.Sprintf("is a file of %s, not a folder", bytesize.Format(info.Size()))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err.Error()
	}
	if len(entries) == 0 {
		return "is an empty folder"
	}
	var names []string
	for _, e := range entries[:min(len(entries), namesMax)] {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	if len(entries) > namesMax {
		names = append(names, "…")
	}
	found := fmt.Sprintf("a folder with %s (%s), but no manifest.json in it or in a folder below",
		bytesize.Counted(len(entries), "entry", "entries"), strings.Join(names, " "))
	if looksLikeSource(path, entries, 2) {
		found += "; these seem to be unpacked images: `imgshard build " + path + "`"
	}
	return found
}

// isDataset reports whether a path seems to hold images that are not packed.
func isDataset(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return looksLikeSource(filepath.Dir(path), []fs.DirEntry{fs.FileInfoToDirEntry(info)}, 0)
	}
	entries, err := os.ReadDir(path)
	return err == nil && looksLikeSource(path, entries, 2)
}

// looksLikeSource reports whether a folder seems to hold images, class folders, splits or dataset tars. It looks at the
// first entries, and at the first of each folder in it, down to depth below.
func looksLikeSource(path string, entries []fs.DirEntry, below int) bool {
	isSource := func(name string) bool {
		extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
		return extension == "tar" || imagefile.HasExtension(extension)
	}
	for _, e := range entries[:min(len(entries), 20)] {
		if !e.IsDir() {
			if isSource(e.Name()) {
				return true
			}
			continue
		}
		folder := filepath.Join(path, e.Name())
		dir, err := os.Open(folder)
		if err != nil || below == 0 {
			continue
		}
		first, _ := dir.ReadDir(1)
		dir.Close()
		if looksLikeSource(folder, first, below-1) {
			return true
		}
	}
	return false
}
