package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard/storage"
)

const scratchName = "scratch"

// stage is the hidden folder of an unfinished set, and the lock that keeps a second build of it away:
//
//	/data/.train-shards.partial-1a2b3c   the set, until it is whole
//	/data/.train-shards.lock             held by flock while the build lives
//
// Whoever holds the lock knows that every partial folder is the remains of a build that was killed. Where the file system
// cannot swap two folders, another hidden folder holds the old set for the moment between two renames.
type stage struct {
	dir     string // the set's final place
	partial string
	replace bool
	lock    *os.File // nil when all is over

	bucket  storage.Writer // nil: dir is a folder
	mu      sync.Mutex
	written []string // names written to the bucket
}

// newStage takes the lock, clears what earlier builds left, and makes the partial folder.
func newStage(dir string, replace bool) (*stage, error) {
	if storage.IsRemote(dir) {
		return newBucketStage(dir, replace)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	if err := errors.Join(checkPlace(dir, replace), checkAround(dir)); err != nil {
		return nil, err
	}
	parent, name := filepath.Split(dir)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	s := &stage{dir: dir, replace: replace}
	if s.lock, err = lockFile(filepath.Join(parent, "."+name+".lock")); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process is writing it: wait for that, or choose another place")
		}
		return nil, fmt.Errorf("shard: %s: %w", dir, err)
	}
	s.partial = filepath.Join(parent, fmt.Sprintf("%s%x", partialPrefix(name), os.Getpid()))
	// Another build may have ended between the look at the place and the lock.
	err = errors.Join(clearStale(dir), checkPlace(dir, replace))
	if err == nil {
		if err = os.Mkdir(s.partial, 0o777); err != nil {
			err = fmt.Errorf("shard: %w", err)
		}
	}
	if err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
}

// partialPrefix begins the names of a set's partial folders.
func partialPrefix(name string) string { return "." + name + ".partial-" }

// clearStale removes the partial folders of killed builds, except a set that one of them was about to replace.
func clearStale(dir string) error {
	parent, name := filepath.Split(dir)
	stale, err := namesWith(parent, partialPrefix(name))
	if err == nil {
		err = restoreReplaced(dir, stale)
	}
	for _, name := range stale {
		if err == nil {
			err = os.RemoveAll(filepath.Join(parent, name))
		}
	}
	if err != nil {
		return fmt.Errorf("shard: clear what an interrupted build left: %w", err)
	}
	return nil
}

// checkPlace refuses a place already in use: by a set, unless it may be replaced, or by anything except an empty folder.
func checkPlace(dir string, replace bool) error {
	names, err := os.ReadDir(dir)
	switch {
	case err == nil && isMountPoint(dir):
		return &placeError{dir, "is a mount point, and a set gets its name by a rename: choose a folder in it"}
	case errors.Is(err, fs.ErrNotExist), err == nil && len(names) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("shard: %w", err)
	}
	if _, err := ReadManifest(dir); errors.Is(err, ErrNotSet) {
		return &placeError{dir, "holds files and no shard set: choose another place"}
	}
	if !replace {
		return &placeError{dir, "holds a shard set already: replace it (--force), or choose another place"}
	}
	return nil
}

// checkAround refuses a place inside of a shard set: whoever replaces or copies that would lose or copy this one too.
func checkAround(dir string) error {
	for parent := filepath.Dir(dir); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		if _, err := ReadManifest(parent); err == nil {
			return &placeError{dir, "lies in the shard set " + parent + ": choose another place"}
		}
	}
	return nil
}

// A placeError refuses a place for a set because something is already there. It is an fs.ErrExist.
type placeError struct{ dir, why string }

func (e *placeError) Error() string { return fmt.Sprintf("shard: %s %s", e.dir, e.why) }

// Is makes the error an fs.ErrExist.
func (e *placeError) Is(target error) bool { return target == fs.ErrExist }

// lockFile makes the file at path and locks it; the error is unix.EWOULDBLOCK if another process holds it.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			return nil, err
		}
		// The last holder may have removed the file between our open and our lock: then we hold a lock on nothing.
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
	}
}

// unlock removes and releases the lock.
func (s *stage) unlock() {
	if s.lock != nil {
		os.Remove(s.lock.Name())
		s.lock.Close()
		s.lock = nil
	}
}

// publish syncs the folders and gives the partial folder the set's name. It swaps a replaced set with it in one step and then removes
// that.
func (s *stage) publish() error {
	if s.bucket != nil {
		s.bucket, s.written = nil, nil
		return os.RemoveAll(s.partial)
	}
	if err := os.RemoveAll(filepath.Join(s.partial, scratchName)); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.partial)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := syncDir(filepath.Join(s.partial, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syncDir(s.partial); err != nil {
		return err
	}
	err = unix.Rename(s.partial, s.dir) // unix.Rename replaces an empty folder, where os.Rename refuses.
	if err != nil && s.replace && (errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY)) {
		if err = checkPlace(s.dir, true); err == nil {
			err = exchange(s.partial, s.dir)
		}
	}
	if err != nil {
		return err
	}
	os.RemoveAll(s.partial) // the set that was replaced, if any; a later build would remove it too
	err = syncDir(filepath.Dir(s.dir))
	s.unlock()
	return err
}

// abort removes the partial folder, unless it was published.
func (s *stage) abort() error {
	if s.bucket != nil {
		return s.abortBucket()
	}
	if s.lock == nil {
		return nil
	}
	err := os.RemoveAll(s.partial)
	s.unlock()
	return err
}

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// replacedSuffix is at the end of the name of a partial folder while exchangeByRenames keeps the replaced set there.
const replacedSuffix = ".replaced"

// exchangeByRenames puts folder a in the place of b, and b beside it. For a moment nothing is under the name b; a process killed just
// then leaves that to restoreReplaced.
func exchangeByRenames(a, b string) error {
	old := a + replacedSuffix
	if err := os.Rename(b, old); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(old, b))
	}
	return os.Rename(old, a)
}

// restoreReplaced gives a set its name back if the build that was to replace it was killed between the two renames. The
// names of its partial folders are given; the caller holds the lock.
func restoreReplaced(dir string, partials []string) error {
	for _, name := range partials {
		if !strings.HasSuffix(name, replacedSuffix) {
			continue
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return err // the new set is in place, or nobody knows
		}
		if err := os.Rename(filepath.Join(filepath.Dir(dir), name), dir); err != nil {
			return err
		}
	}
	return nil
}
