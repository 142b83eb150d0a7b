package shard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// VerifyOptions says how to verify a set.
type VerifyOptions struct {
	Jobs     int                     // shards read at a time; 0 is GOMAXPROCS
	Problem  func(error)             // receives each problem when it is found; may be nil
	Progress func(done, total int64) // receives the bytes read, after each record; may be nil
	// NewCheck, unless nil, returns a check of records, one for each goroutine. The check gets each record with the right checksum;
	// its error is a problem. The worker of an encoding decodes the images.
	NewCheck func() func(*Record) error
}

// VerifyReport is the result of a verification.
type VerifyReport struct {
	Samples           int
	Bytes, BytesTotal int64

	Shards   int   // shards read to the end
	Problems int   // number of problems given to VerifyOptions.Problem
	Missing  []int // absent partitions, not verified
}

// verifier verifies shards, several at a time. mu guards report, and Problem and Progress are called under it: one call at a time.
type verifier struct {
	dir      string
	files    storage.Storage
	manifest *Manifest
	options  VerifyOptions

	mu     sync.Mutex
	report VerifyReport
}

// Verify reads every byte of the set's partitions present in dir. It checks every checksum: footers, headers, entries, keys, each
// record, and each file's SHA-256. It checks the order of the keys, and the fingerprint if all partitions are there. options.Problem
// receives the damage, as *CorruptError for each bad record or section. The report counts it, and the verification continues. The
// error is for its end: a manifest that can't be read, no partition, ctx.
func Verify(ctx context.Context, dir string, options VerifyOptions) (VerifyReport, error) {
	opening := storage.Default.Opening()
	m, here, files, err := findShards(opening, dir)
	opening.End()
	if err != nil {
		return VerifyReport{}, err
	}
	defer closeShards(files)
	v := &verifier{dir: dir, files: files, manifest: m, options: options}
	for r := range here {
		if !here[r] {
			v.report.Missing = append(v.report.Missing, r)
		}
	}
	shards := m.numbered(here)
	for _, info := range shards {
		v.report.BytesTotal += info.Bytes
	}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(max(options.Jobs, 0), runtime.GOMAXPROCS(0)))
	for _, info := range shards {
		group.Go(func() error { return v.shard(reading, info) })
	}
	if err := group.Wait(); err != nil {
		return v.report, err
	}
	if v.report.Problems == 0 {
		err = v.order(ctx)
	}
	return v.report, err
}

// problem reports one, but not a read from a bucket that was interrupted.
func (v *verifier) problem(err error) {
	if storage.Default.Context.Err() != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Problems++
	if v.options.Problem != nil {
		v.options.Problem(err)
	}
}

func (v *verifier) progress(samples, shards int, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Samples += samples
	v.report.Shards += shards
	v.report.Bytes += bytes
	if v.options.Progress != nil {
		v.options.Progress(v.report.Bytes, v.report.BytesTotal)
	}
}

// shard verifies one shard. It returns an error only when ctx is over.
func (v *verifier) shard(ctx context.Context, info numberedShard) error {
	r, err := openShard(v.manifest, info, v.files)
	if storage.IsDown(err) {
		return err
	}
	if err != nil {
		v.problem(err)
		return ctx.Err()
	}
	defer r.Close()
	w := shardWalk{verifier: v, reader: r, info: info, sha: sha256.New()}
	if storage.IsRemote(v.dir) || v.manifest.Index != nil {
		w.inOrder = storage.NewReader(r.file)
	}
	if v.options.NewCheck != nil {
		w.check = v.options.NewCheck()
	}
	if err := w.walk(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if storage.IsDown(err) {
			return err
		}
		v.problem(err)
		return nil
	}
	if _, err := r.Keys(); err != nil {
		w.problems++
		v.problem(err)
	}
	got := hex.EncodeToString(w.sha.Sum(nil))
	if got != info.SHA256 && info.Index == nil && w.problems == 0 { // an index's images have checksums each, and no other
		v.problem(corrupt(r.path, "file", 0, fmt.Errorf(
			"SHA-256 %s, the manifest says %.64s, though all that is in use is in order: bytes between the records differ",
			got, info.SHA256)))
	}
	return nil
}

// shardWalk reads a shard from its first byte to its last.
type shardWalk struct {
	*verifier
	reader   *reader
	info     numberedShard
	sha      hash.Hash
	check    func(*Record) error // optional
	buf      []byte
	problems int

	inOrder io.Reader // stream of a remote file, read in large pieces from byte at on
	at      int64
}

// readAt reads from where the last call has ended, or anywhere.
func (w *shardWalk) readAt(p []byte, offset int64, section string) error {
	if w.inOrder != nil && offset == w.at {
		if n, err := io.ReadFull(w.inOrder, p); err == nil {
			w.at += int64(n)
			return nil
		}
		w.inOrder = nil
	}
	return w.reader.readAt(p, offset, section)
}

// walk hashes the whole file and checks each record on the way. It tells damaged records as problems; its error ends the walk.
func (w *shardWalk) walk(ctx context.Context) error {
	r, pos := w.reader, int64(0)
	for j := range r.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := r.Entry(j)
		if err := w.hash(pos, e.Offset); err != nil { // what pads the record before
			return err
		}
		w.buf = growBuffer(w.buf, int(e.length())+SlackBytes)
		bytes := w.buf[:e.length()]
		record, err := r.record(j, e, bytes, w.readAt(bytes, e.Offset, "record"))
		if storage.IsDown(err) {
			return err
		}
		if err == nil {
			w.sha.Write(bytes)
			_, err = w.manifest.Fields.checkValues(record.Fields)
			if err == nil && w.check != nil {
				err = w.check(&record)
			}
			if err != nil {
				err = corrupt(r.path, "record", e.Offset, err)
			}
		}
		if err != nil {
			w.problems++
			w.problem(named(err, j, (w.info.start+j)*w.manifest.Partitions+w.info.Partition))
		}
		end := e.Offset + e.length()
		w.progress(1, 0, end-pos)
		pos = end
	}
	if err := w.hash(pos, r.footer.FileLength); err != nil {
		return err
	}
	w.progress(0, 1, r.footer.FileLength-pos)
	return nil
}

func (w *shardWalk) hash(pos, end int64) error {
	const piece = 1 << 20
	for pos < end {
		n := min(end-pos, piece)
		w.buf = growBuffer(w.buf, int(n))
		if err := w.readAt(w.buf[:n], pos, "file"); err != nil {
			return err
		}
		w.sha.Write(w.buf[:n])
		pos += n
	}
	return nil
}

// order checks that the samples are in the order of their keys, and the fingerprint and the digest of the content.
func (v *verifier) order(ctx context.Context) error {
	s, err := OpenSet(v.dir)
	if err != nil {
		return err
	}
	defer s.Close()
	m := v.manifest
	digests := newDigests(m.Partitions, m.Classes, m.Encoding)
	lastHash, lastKey, first := uint64(0), "", true
	for i := range m.Samples {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !s.Has(i % m.Partitions) {
			continue
		}
		key, err := s.Key(i)
		if err != nil {
			return err
		}
		e, err := s.Entry(i)
		if err != nil {
			return err
		}
		hash := OrderHash(m.Seed, key)
		if !first && (hash < lastHash || hash == lastHash && key <= lastKey) {
			at, _ := s.Locate(i)
			err := fmt.Errorf("key %q does not belong after %q: it cannot be found by its key", key, lastKey)
			v.problem(named(corrupt(storage.Join(v.dir, at.Path), "keys", 0, err), at.Record, i))
			return nil
		}
		lastHash, lastKey, first = hash, key, false
		digests.add(key, e.Label, e.Checksum)
	}
	fingerprint, content := digests.sums()
	if len(v.report.Missing) > 0 || fingerprint == m.Fingerprint && (m.Content == "" || content == m.Content) {
		return nil
	}
	v.problem(corrupt(storage.Join(v.dir, manifestName), "manifest", 0,
		fmt.Errorf("fingerprint %s and content %s, expected %s and %s of the samples", m.Fingerprint, m.Content, fingerprint, content)))
	return nil
}
