package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Repair makes damaged shards of a set anew. Each is written beside the damaged one, proved by what the manifest says of it, and
// put in its place by a rename: at any moment the set is as good as it was, or better. Servers keep what they have open. It is not
// safe for concurrent use.
type Repair struct {
	dir      string
	manifest *Manifest
	lock     *os.File
	scratch  string
}

// NewRepair begins a repair of the set in dir, of which there is one at a time. Close ends it.
func NewRepair(dir string) (*Repair, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	parent, name := filepath.Split(dir)
	lock, err := lockFile(filepath.Join(parent, "."+name+".lock"))
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another process is writing it: wait for that")
	}
	if err != nil {
		return nil, fmt.Errorf("shard: %s: %w", dir, err)
	}
	r := &Repair{dir, m, lock, filepath.Join(parent, partialPrefix(name)+"repair")}
	if err := r.clear(); err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	return r, nil
}

// repairSuffix ends the hidden name of a shard that is not finished.
const repairSuffix = ".repair"

// clear removes what a repair that was killed has left.
func (r *Repair) clear() error {
	stale, err := filepath.Glob(filepath.Join(r.dir, "rank-*", ".*"+repairSuffix))
	for _, path := range append(stale, r.scratch) {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// Scratch returns a folder for the caller's temporary files, on the set's file system, which Close removes.
func (r *Repair) Scratch() (string, error) {
	if err := os.Mkdir(r.scratch, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("shard: %w", err)
	}
	return r.scratch, nil
}

// Close ends the repair. Shards that are not finished stay as they were.
func (r *Repair) Close() error {
	return errors.Join(r.clear(), unlock(r.lock))
}

// A ShardRepair is one shard being made anew.
type ShardRepair struct {
	info    placedShard
	path    string
	file    *os.File
	old     *reader // where its records are; nil if that is lost
	writer  *fileWriter
	put     int // records that were put back
	missing int // that are damaged still
}

// Shard begins to make a damaged shard anew. The caller puts back the damaged records, or of one that is lost every record from the
// first on, and then calls Finish, or Abort.
func (r *Repair) Shard(d ShardDamage) (*ShardRepair, error) {
	s := &ShardRepair{path: filepath.Join(r.dir, filepath.FromSlash(d.Path)), missing: len(d.Records)}
	for _, info := range r.manifest.placed() {
		if info.Path == d.Path {
			s.info = info
		}
	}
	name := filepath.Join(filepath.Dir(s.path), "."+filepath.Base(s.path)+repairSuffix)
	err := os.Remove(name)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: repair %s: %w", s.path, err)
	}
	if d.Lost {
		m := r.manifest
		h := header{Split: m.Split, Partition: d.Partition, Partitions: m.Partitions, Shard: d.Shard, Encoding: m.Encoding, Fields: m.Fields.unmeasured()}
		s.writer, err = newFileWriter(s.file, h)
		s.missing = s.info.Samples
	} else if s.old, err = openShard(r.manifest, s.info, opening{files: storage.NewFolder(r.dir, nil)}); err == nil {
		err = s.copyOld()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shard: repair %s: %w", s.path, err), s.Abort())
	}
	return s, nil
}

// copyOld copies all of the damaged shard that has checksums, its damaged records as far as they can be read. What lies between
// is zeros.
func (s *ShardRepair) copyOld() error {
	f := &s.old.footer
	if err := s.file.Truncate(f.fileLength); err != nil {
		return err
	}
	buf := make([]byte, f.recordsOffset)
	for _, part := range [][2]int64{
		{0, f.recordsOffset}, {f.entriesOffset, f.keysOffset - f.entriesOffset}, {f.keysOffset, f.keysLength}, {f.fileLength - footerSize, footerSize},
	} {
		buf = growBuffer(buf, int(part[1]))
		if err := s.old.readAt(buf[:part[1]], part[0], "file"); err != nil {
			return err
		}
		if _, err := s.file.WriteAt(buf[:part[1]], part[0]); err != nil {
			return err
		}
	}
	for j := range s.old.Len() {
		e, err := s.old.Entry(j)
		if err != nil {
			return err
		}
		buf = growBuffer(buf, int(e.length()))
		record := buf[:e.length()]
		if s.old.readAt(record, e.Offset, "record") != nil {
			continue
		}
		if _, err := s.file.WriteAt(record, e.Offset); err != nil {
			return err
		}
	}
	return nil
}

// Put puts back record j. A sample that is not, to the byte, what was written there is refused with an error that says so;
// of a lost shard that is told by Finish.
func (s *ShardRepair) Put(j int, sample Sample) error {
	if s.writer != nil {
		if j != s.put {
			return fmt.Errorf("shard: repair %s: record %d after %d others", s.path, j, s.put)
		}
		if err := checkSample(&sample); err != nil {
			return err
		}
		s.put++
		s.missing--
		_, err := s.writer.append(&sample)
		return err
	}
	e, err := s.old.Entry(j)
	if err != nil {
		return fmt.Errorf("shard: repair %s: %w", s.path, err)
	}
	got := crc32Append(crc32Append(checksum(sample.Image), sample.Aux), sample.Fields)
	if len(sample.Image) != int(e.ImageLength) || len(sample.Aux) != int(e.AuxLength) || len(sample.Fields) != int(e.FieldsLength) || got != e.Checksum {
		err := error(&ChecksumError{Length: e.length(), Want: e.Checksum, Got: got})
		if sample.length() != e.length() {
			err = fmt.Errorf("its record has %d bytes, expected %d", sample.length(), e.length())
		}
		return &ForeignError{sample.Key, err}
	}
	at := e.Offset
	for _, part := range [][]byte{sample.Image, sample.Aux, sample.Fields} {
		if _, err := s.file.WriteAt(part, at); err != nil {
			return fmt.Errorf("shard: repair %s: %w", s.path, err)
		}
		at += int64(len(part))
	}
	s.put++
	s.missing--
	return nil
}

// A ForeignError says that an original is not the one that a set was built with.
type ForeignError struct {
	What string // a sample's key, or a shard's path
	Err  error
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("shard: %s, made of what is given as its original, is not what the build had made: %v", e.What, e.Err)
}

// Unwrap says what tells it.
func (e *ForeignError) Unwrap() error { return e.Err }

// Finish puts the new shard in the place of the damaged one. whole is false where records are damaged still, and the others were put
// back. A shard that is not, by its SHA-256, the one that was built stays as it was, with an error.
func (s *ShardRepair) Finish() (whole bool, err error) {
	defer func() {
		if failed := s.Abort(); err == nil {
			err = failed
		}
	}()
	if s.writer != nil && s.missing == 0 {
		if _, err := s.writer.finish(); err != nil {
			return false, fmt.Errorf("shard: repair %s: %w", s.path, err)
		}
	}
	sha := sha256.New()
	if _, err := io.Copy(sha, io.NewSectionReader(s.file, 0, 1<<62)); err != nil {
		return false, fmt.Errorf("shard: repair %s: %w", s.path, err)
	}
	whole = hex.EncodeToString(sha.Sum(nil)) == s.info.SHA256
	if !whole && (s.writer != nil || s.missing == 0) {
		return false, &ForeignError{s.path, fmt.Errorf("SHA-256 %x, and the manifest says %s; it stays as it was", sha.Sum(nil), s.info.SHA256)}
	}
	if !whole && s.put == 0 {
		return false, nil
	}
	if info, err := os.Stat(s.path); err == nil {
		if err := s.file.Chmod(info.Mode().Perm()); err != nil {
			return false, fmt.Errorf("shard: repair %s: %w", s.path, err)
		}
	}
	if err := s.file.Sync(); err != nil {
		return false, fmt.Errorf("shard: repair %s: %w", s.path, err)
	}
	if err := os.Rename(s.file.Name(), s.path); err != nil {
		return false, fmt.Errorf("shard: repair %s: %w", s.path, err)
	}
	return whole, syncDir(filepath.Dir(s.path))
}

// Abort gives it up: the shard stays as it was. After Finish it does nothing.
func (s *ShardRepair) Abort() error {
	if s.file == nil {
		return nil
	}
	name := s.file.Name()
	err := s.file.Close()
	if s.old != nil {
		err = errors.Join(err, s.old.Close())
	}
	s.file = nil
	if removed := os.Remove(name); !errors.Is(removed, os.ErrNotExist) { // after a rename it is not there
		err = errors.Join(err, removed)
	}
	return err
}
