package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard/storage"
)

const scratchName = "scratch"

// stage is the hidden folder of an unfinished set, and the lock that keeps a second build of it away:
//
//	/data/.train-shards.partial   the set, until it is whole.
//	/data/.train-shards.lock      held by flock while the build lives.
//	/data/.train-shards.replaced  the old set, between two renames.
//
// Whoever holds the lock knows that the other two are the remains of a build that was killed.
type stage struct {
	dir     string // the set's final folder
	partial string
	replace bool
	lock    *os.File // nil when all is over

	bucket  storage.Writer // nil: dir is a folder
	written []string       // names written to the bucket
}

// newStage takes the lock, clears what earlier builds left, and makes the partial folder.
func newStage(dir string, replace bool) (*stage, error) {
	if storage.IsRemote(dir) {
		return newBucketStage(dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 { // no folder can be renamed to it
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil, fmt.Errorf("shard: a link that leads to no folder: make the folder, or choose another path: %w", err)
		}
	}
	if err := checkOutput(dir, replace); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	s := &stage{dir: dir, replace: replace, partial: hiddenBeside(dir, "partial")}
	if s.lock, err = lockFile(hiddenBeside(dir, "lock")); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another process is writing it: wait for it to finish, or choose another path")
		}
		return nil, fmt.Errorf("shard: %s: %w", dir, err)
	}
	if err := s.prepare(); err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
}

// hiddenBeside returns the path of a hidden file or folder of a build.
func hiddenBeside(dir, what string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+"."+what)
}

// prepare makes the partial folder. The lock is held.
func (s *stage) prepare() error {
	// The set has no name if a build was killed between publish's two renames.
	old := hiddenBeside(s.dir, "replaced")
	err := unix.Rename(old, s.dir) // It replaces an empty folder, where os.Rename refuses.
	if errors.Is(err, fs.ErrExist) {
		err = removeReplaced(old, s.dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(s.partial)
	}
	if err != nil {
		return fmt.Errorf("shard: %s: clear what an interrupted build left: %w", s.dir, err)
	}
	// Another build may have ended between the look at the path and the lock.
	if err := checkOutput(s.dir, s.replace); err != nil {
		return err
	}
	if err := unix.Rmdir(s.dir); errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("shard: %s is a mount point, and a set gets its name by a rename: choose a folder in it", s.dir)
	}
	if err := os.Mkdir(s.partial, 0o777); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	return nil
}

// checkOutput refuses a path already in use: by a set, unless it may be replaced, or by anything except an empty folder.
func checkOutput(dir string, replace bool) error {
	names, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(names) == 0:
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("shard: %s: it, or what it lies in, is a file: choose another path", dir)
	case err != nil:
		return fmt.Errorf("shard: %w", err)
	}
	if _, err := ReadManifest(dir); errors.Is(err, ErrNotSet) {
		return fmt.Errorf("shard: %s holds files and no shard set: choose another path", dir)
	}
	if !replace {
		return fmt.Errorf("shard: %s holds a shard set already: replace it (--force), or choose another path", dir)
	}
	return nil
}

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
		if there, failed := os.Stat(path); err == nil && failed == nil && os.SameFile(mine, there) {
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

// publish syncs the folders and gives the partial folder the set's name. A replaced set is renamed just before, and then removed.
func (s *stage) publish() error {
	if s.bucket != nil {
		s.bucket, s.written = nil, nil
		return os.RemoveAll(s.partial)
	}
	if err := os.RemoveAll(filepath.Join(s.partial, scratchName)); err != nil {
		return err
	}
	folders, err := fs.Glob(os.DirFS(s.partial), "rank-*")
	if err != nil {
		return err
	}
	for _, folder := range append(folders, ".") {
		if err := syncDir(filepath.Join(s.partial, folder)); err != nil {
			return err
		}
	}
	old := hiddenBeside(s.dir, "replaced")
	err = os.Rename(s.partial, s.dir)
	if err != nil && s.replace && errors.Is(err, fs.ErrExist) {
		if err = checkOutput(s.dir, true); err == nil {
			err = os.Rename(s.dir, old)
		}
		if err == nil {
			if err = os.Rename(s.partial, s.dir); err != nil {
				err = errors.Join(err, os.Rename(old, s.dir))
			}
		}
	}
	if err != nil {
		return err
	}
	err = errors.Join(removeReplaced(old, s.dir), syncDir(filepath.Dir(s.dir)))
	s.unlock()
	return err
}

// setFiles are the names that a set's own files have in its folder.
var setFiles = regexp.MustCompile(`^(manifest\.json|rejects\.jsonl|objects\.jsonl|rank-\d+/\d+\.imgshard)$`)

// removeReplaced removes a replaced set, and moves other files in its folder, such as checkpoints, to the new one. It can be repeated.
func removeReplaced(old, dir string) error {
	if info, err := os.Lstat(old); err != nil || !info.IsDir() { // if old is a link to a set, only the link was replaced
		return os.RemoveAll(old)
	}
	err := fs.WalkDir(os.DirFS(old), ".", func(name string, d fs.DirEntry, err error) error {
		ours := setFiles.MatchString(name) || d != nil && d.IsDir() && strings.HasPrefix(name, "rank-") && !strings.Contains(name, "/")
		if err != nil || ours || name == "." {
			return err
		}
		to := filepath.Join(dir, name)
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("%s and %s are both there: remove one of them", filepath.Join(old, name), to)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o777), os.Rename(filepath.Join(old, name), to)); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// abort removes the partial folder, and what was written to a bucket, unless the set was published.
func (s *stage) abort() error {
	if s.bucket == nil && s.lock == nil {
		return nil
	}
	err := os.RemoveAll(s.partial)
	for _, name := range s.written {
		err = errors.Join(err, s.bucket.Remove(name))
	}
	s.bucket, s.written = nil, nil
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

// newBucketStage begins a set in a bucket. Its files are written to their final paths, and the manifest last, so the set is whole or
// absent. The partial folder, on this machine, is for temporary files.
func newBucketStage(url string) (*stage, error) {
	bucket, err := storage.WriterAt(url)
	if err != nil {
		return nil, err
	}
	switch _, _, err := readManifest(bucket); {
	case errors.Is(err, ErrNotSet):
	case err != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("shard: %s holds a shard set, and in a bucket none is replaced: remove it, or choose another path", url)
	}
	s := &stage{dir: url, bucket: bucket}
	s.partial, err = os.MkdirTemp("", "imgshard-")
	return s, err
}

// create begins a file of the set, by its name there.
func (s *stage) create(name string) (writableFile, error) {
	if s.bucket == nil {
		path := filepath.Join(s.partial, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		return localFile{f}, nil
	}
	s.written = append(s.written, name)
	r, w := io.Pipe()
	f := &bucketFile{w, make(chan error, 1)}
	go func() {
		err := s.bucket.Write(name, "", r)
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		f.done <- err
		close(f.done)
	}()
	return f, nil
}

type localFile struct{ *os.File }

func (f localFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

func (f localFile) abort() { f.File.Close() }

// A bucketFile is a file on its way to a bucket. It is there once Close has returned.
type bucketFile struct {
	*io.PipeWriter
	done chan error
}

func (f *bucketFile) Close() error {
	f.PipeWriter.Close()
	return <-f.done
}

// abort leaves nothing of the file.
func (f *bucketFile) abort() {
	f.CloseWithError(errors.New("the set was given up"))
	<-f.done
}
