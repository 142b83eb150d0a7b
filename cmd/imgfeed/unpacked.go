package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An indexer makes an unpacked dataset servable: it indexes the dataset once, into the user's cache, and finds the index again
// there as long as the dataset has the same files.
type indexer struct {
	client   *storage.Client
	log      *slog.Logger
	progress io.Writer
	notes    []string // about the datasets that were indexed
}

// set returns the path of a shard set: place itself, or the index of the dataset there. If the place does not exist, it returns place,
// and opening it gives the error.
func (x *indexer) set(ctx context.Context, place string) (string, error) {
	name, err := cliutil.Interruptible(ctx, func() (string, error) {
		_, err := shard.FindIn(x.client, place)
		if !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, unix.ENOTDIR) {
			return "", nil
		}
		if !storage.IsRemote(place) {
			if _, err := source.Open(place, source.Options{}); err != nil {
				return "", err
			}
		}
		return indexName(x.client, place)
	})
	switch {
	case err == nil && name == "":
		return place, nil
	case err != nil:
		return "", fmt.Errorf("%s is not packed, and cannot be indexed: %w", place, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s is not packed, and there is no folder for its index: %w", place, err)
	}
	folder := filepath.Join(cache, "imgfeed", "indexes", name)
	if err := x.make(ctx, place, folder); err != nil {
		return "", fmt.Errorf("%s is not packed, and cannot be indexed: %w", place, err)
	}
	found, err := shard.FindAll(folder)
	if err != nil {
		return "", err
	}
	sets := slices.Sorted(maps.Values(found.Sets))
	x.notes = append(x.notes, fmt.Sprintf(
		"%s is not packed: its images are read where they are, by the index %s; imgshard build --class-order string %[1]s makes a set that is read faster",
		place, folder))
	x.notes = append(x.notes, leftOut(place, sets)...)
	return folder, nil
}

// leftOut says how many files the index's sets leave out, and where they list them.
func leftOut(place string, sets []string) (notes []string) {
	for _, dir := range sets {
		n := 0
		if err := pack.ReadRejects(dir, func(pack.Reject) { n++ }); err == nil && n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s not readable as an image, and left out: %s",
				place, bytesize.Counted(n, "file is", "files are"), filepath.Join(dir, shard.RejectsName)))
		}
	}
	return notes
}

// lockEvery is the time between two looks at a lock.
const lockEvery = 200 * time.Millisecond

// make indexes a dataset, unless its index is there. One process at a time makes it, and it appears at folder whole.
func (x *indexer) make(ctx context.Context, place, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(folder+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	for told := false; unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; told = true {
		if !told {
			x.log.Warn("waiting for another process that indexes the images", "images", place, "lock", lock.Name())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockEvery):
		}
	}
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	partial := folder + ".partial"
	defer os.RemoveAll(partial)
	if err := os.RemoveAll(partial); err != nil { // a killed process has left it
		return err
	}
	x.log.Info("indexing the images, once", "images", place, "index", folder)
	if err := imgshard.Index(ctx, place, partial, x.progress); err != nil {
		return err
	}
	return os.Rename(partial, folder)
}

// indexName returns a folder's name for the index of the dataset at a place: another one whenever files were added, removed or
// renamed there, or a file that is not an image was changed. An image that was changed is refused when it is read.
func indexName(client *storage.Client, place string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "imgfeed index 1\x00%s\x00", place)
	folder, file := place, ""
	if info, err := os.Stat(place); err == nil && !info.IsDir() {
		folder, file = filepath.Split(place)
	}
	files, err := client.At(folder)
	switch {
	case err != nil:
	case file != "":
		err = hashFile(sum, files, file)
	default:
		err = hashFolder(sum, files, "", 0)
	}
	if errors.Is(err, errors.ErrUnsupported) { // a web server has no list
		err = nil
	}
	base := strings.Trim(path.Base(filepath.ToSlash(place)), "./")
	return fmt.Sprintf("%s-%x", cmp.Or(base, "data"), sum.Sum(nil)[:8]), err
}

// datasetDepth is how deep folders are looked into: splits, classes, and more.
const datasetDepth = 6

// hashFolder hashes the files below a folder.
func hashFolder(sum hash.Hash, files storage.Storage, folder string, depth int) error {
	names, err := files.Names(folder)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		name = path.Join(folder, name) + name[len(strings.TrimSuffix(name, "/")):]
		if !strings.HasSuffix(name, "/") {
			err = hashFile(sum, files, name)
		} else if depth < datasetDepth {
			err = hashFolder(sum, files, name, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hashFile hashes a file's name, and if it is not an image its size and date.
func hashFile(sum hash.Hash, files storage.Storage, name string) error {
	fmt.Fprintf(sum, "%s\x00", name)
	if imagefile.HasExtension(strings.TrimPrefix(strings.ToLower(path.Ext(name)), ".")) {
		return nil
	}
	o, err := files.Stat(name)
	fmt.Fprintf(sum, "%d %s\x00", o.Bytes, o.Version)
	return err
}
