package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An indexer makes an unpacked dataset servable: it indexes the dataset once, into the user's cache, and finds the index again
// there as long as the dataset is the same, by [dataset.Split.Identity].
type indexer struct {
	client   *storage.Client
	log      *slog.Logger
	progress io.Writer
	notes    []string // about the datasets that are read in place
}

// set returns the path of the set to serve for a dataset: that of its index, or of the dataset itself if it is a set. A path that does
// not exist is returned too, since opening it gives the error.
func (x *indexer) set(ctx context.Context, dataset string) (string, error) {
	name, err := cliutil.Interruptible(ctx, func() (string, error) {
		_, err := shard.FindIn(x.client, dataset)
		if storage.IsDown(err) {
			return "", err
		}
		if !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, unix.ENOTDIR) {
			return "", nil
		}
		defer x.alive("listing the images", dataset)()
		return indexName(ctx, dataset)
	})
	switch {
	case err == nil && name == "":
		return dataset, nil
	case storage.IsDown(err):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%s is not packed, and cannot be indexed: %w", dataset, source.InPlace(err, dataset))
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s is not packed, and there is no folder for its index: %w: %s", dataset, err, otherCache)
	}
	folder := filepath.Join(cache, "imgfeed", "indexes", name)
	if x.progress != io.Writer(os.Stderr) { // a loader doesn't see it
		defer x.alive("indexing the images", dataset)()
	}
	index, err := x.make(ctx, dataset, folder)
	written, ok := errors.AsType[*fs.PathError](err)
	if ok && (strings.HasPrefix(written.Path, cache) || strings.HasPrefix(cache, written.Path)) { // a loader has no path for its index
		return "", fmt.Errorf("%s is not packed, and its index cannot be written: %v: %s", dataset, err, otherCache)
	}
	if err != nil {
		return "", fmt.Errorf("%s is not packed, and cannot be indexed: %w", dataset, err)
	}
	note := fmt.Sprintf("%s is not packed: its images are read where they are, by the index %s; imgshard build --class-order string %s "+
		"makes a set that is read faster", dataset, folder, termsafe.Shell(dataset))
	if packed := strings.TrimRight(dataset, "/") + "-shards"; isSet(packed) {
		note = fmt.Sprintf("the images of %s are read where they are, by the index %s; the set %s is read faster", dataset, folder, packed)
	}
	x.notes = append(x.notes, note)
	for _, note := range index.Notes {
		x.notes = append(x.notes, dataset+": "+note)
	}
	return folder, nil
}

// otherCache is the remedy for a missing, full or read-only home folder, as many containers have.
const otherCache = "set XDG_CACHE_HOME to a folder that has room"

// isSet reports whether there is a set in a folder.
func isSet(folder string) bool {
	_, err := os.Stat(folder)
	if err == nil {
		_, err = shard.FindAll(folder)
	}
	return err == nil
}

// aliveEvery is shorter than the time after which a loader gives up a server that says nothing. Tests set less.
var aliveEvery = 10 * time.Second

// alive logs from time to time what is going on with the images of a dataset, until the function that it returns is called.
func (x *indexer) alive(what, dataset string) (stop func()) {
	ticker := time.NewTicker(aliveEvery)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				x.log.Warn(what, "images", dataset)
			case <-done:
				ticker.Stop()
				return
			}
		}
	}()
	return func() { close(done) }
}

// A madeIndex describes an index in the cache, in a file beside its sets.
type madeIndex struct {
	Sets  int      `json:"sets"`
	Notes []string `json:"notes"` // shown to the user at every start
}

const madeIndexName = "made.json"

// open returns what describes an index, if its sets can be opened.
func (x *indexer) open(folder string) (made madeIndex, err error) {
	text, err := os.ReadFile(filepath.Join(folder, madeIndexName))
	if err != nil {
		return made, err
	}
	found, err := shard.FindIn(x.client, folder)
	if err = cmp.Or(err, found.Err()); err != nil {
		return made, err
	}
	for split := range found.Sets {
		set, err := found.Open(split, nil)
		if err != nil {
			return made, err
		}
		set.Close()
		if err := set.Err(); err != nil {
			return made, err
		}
	}
	if json.Unmarshal(text, &made) != nil || made.Sets != len(found.Sets) {
		return made, fmt.Errorf("%s: %w", folder, shard.ErrNotSet)
	}
	return made, nil
}

// isDamage reports whether an index can't be opened because its files are missing or are not those that were written.
func isDamage(err error) bool {
	_, corrupt := errors.AsType[*shard.CorruptError](err)
	_, partial := errors.AsType[*shard.DamagedPartitionError](err)
	_, missing := errors.AsType[*shard.MissingPartitionError](err)
	_, unsupported := errors.AsType[*shard.UnsupportedError](err)
	return corrupt || partial || missing || unsupported || errors.Is(err, shard.ErrNotSet) || errors.Is(err, fs.ErrNotExist)
}

// triesMax is how often an index is made that is deleted meanwhile.
const triesMax = 5

// make indexes a dataset, unless its index is there. One process at a time makes it, and it appears at folder whole. It makes an index anew
// that is damaged, or that was deleted meanwhile.
func (x *indexer) make(ctx context.Context, dataset, folder string) (made madeIndex, err error) {
	for range triesMax {
		if made, err = x.open(folder); err == nil || !isDamage(err) {
			return made, err
		}
		err = x.makeLocked(ctx, dataset, folder)
		if deleted := errors.Is(err, fs.ErrNotExist) || errors.Is(err, shard.ErrNotSet); err != nil && !deleted || ctx.Err() != nil {
			return made, cmp.Or(err, ctx.Err())
		}
	}
	if err == nil {
		made, err = x.open(folder)
	}
	return made, err
}

// makeLocked makes an index while no other process does. If somebody deletes what it writes, the error is fs.ErrNotExist or
// shard.ErrNotSet, or nil.
func (x *indexer) makeLocked(ctx context.Context, dataset, folder string) error {
	lock, err := x.lock(ctx, dataset, folder)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := x.open(folder); err == nil {
		return nil
	} else if !isDamage(err) {
		return err
	} else if !errors.Is(err, fs.ErrNotExist) {
		x.log.Warn("the index is damaged: making it again", "index", folder, "err", err)
	}
	indexes, name := filepath.Split(folder)
	entries, err := os.ReadDir(indexes)
	if err == nil {
		err = os.RemoveAll(folder)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name+".partial") && err == nil { // a process that was killed has left it
			err = os.RemoveAll(filepath.Join(indexes, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	partial, err := os.MkdirTemp(indexes, name+".partial-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	x.log.Info("indexing the images; this happens once", "images", dataset, "index", folder)
	var made madeIndex
	if made.Notes, err = imgshard.Index(ctx, dataset, partial, x.progress); err != nil {
		return err
	}
	found, err := shard.FindAll(partial)
	if err != nil {
		return err
	}
	for _, dir := range found.Sets {
		made.Notes = append(made.Notes, leftOut(dir, strings.Replace(dir, partial, folder, 1))...)
	}
	made.Sets = len(found.Sets)
	text, err := json.Marshal(made)
	if err == nil {
		err = os.WriteFile(filepath.Join(partial, madeIndexName), text, 0o600)
	}
	if err != nil {
		return err
	}
	if err = os.Rename(partial, folder); errors.Is(err, fs.ErrExist) { // the lock was deleted, and another process was faster
		err = nil
	}
	return err
}

// leftOut says how many files an index leaves out, where it will list them, and by what the remaining samples are compared: another
// machine may have left out others.
func leftOut(dir, shown string) []string {
	n := 0
	m, err := shard.ReadManifest(dir)
	if err = cmp.Or(err, pack.ReadRejects(dir, func(pack.Reject) { n++ })); err != nil || n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s not readable as an image, and left out: %s; the samples of %s that remain have the fingerprint %s, "+
		"which must be the same on all machines of a training",
		bytesize.Counted(n, "file is", "files are"), filepath.Join(shown, shard.RejectsName), m.Split, m.Fingerprint)}
}

// lockEvery is the time between two looks at a lock.
const lockEvery = 200 * time.Millisecond

// lock waits until no other process makes an index. A lock whose file is deleted is none.
func (x *indexer) lock(ctx context.Context, dataset, folder string) (*os.File, error) {
	for told := false; ; told = true {
		if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(folder+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			now, _ := os.Stat(lock.Name())
			if held, err := lock.Stat(); err == nil && now != nil && os.SameFile(now, held) {
				return lock, nil
			}
		}
		lock.Close()
		if !told && err != nil {
			x.log.Warn("waiting for another process that indexes the images", "images", dataset, "lock", lock.Name())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// indexName returns a folder's name for the index of a dataset: another one whenever its samples or labels may be others.
func indexName(ctx context.Context, dataset string) (string, error) {
	splits, err := imgshard.OpenInPlace(dataset)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "imgfeed index 2\x00%s\x00", dataset)
	for _, s := range splits {
		if classes := splits[0].Classes(); s != splits[0] && classes != nil {
			s.ExpectClasses(classes)
		}
		identity, err := s.Identity(ctx)
		if err != nil {
			return "", err
		}
		io.WriteString(sum, identity)
	}
	base := strings.Trim(path.Base(filepath.ToSlash(dataset)), "./")
	return fmt.Sprintf("%.40s-%x", cmp.Or(base, "data"), sum.Sum(nil)[:8]), nil
}
