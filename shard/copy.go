package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/shard/storage"
)

const copiesUnderWay = 4 // how many files are copied at a time

// RejectsName is a file of a set that its manifest does not list. It names the files left out, {"key":…,"bytes":…,"reason":…} in each
// line, ordered as the samples would have been. If no file was left out, it does not exist.
const RejectsName = "rejects.jsonl"

// A CopyReport says what was copied.
type CopyReport struct {
	Files, Kept int // files written, and files already there
	Bytes       int64
}

// Copy copies a set between folders and buckets, and compares each file with its checksum on the way. The manifest comes last: before it
// there is no set. Files that an interrupted Copy has written are kept. progress gets the bytes done and the total, unless it is nil.
func Copy(ctx context.Context, from, to string, progress func(done, total int64)) (report CopyReport, err error) {
	source, err := storage.At(from)
	if err != nil {
		return report, err
	}
	target, err := storage.WriterAt(to)
	if err != nil {
		return report, err
	}
	m, manifest, err := readManifest(source)
	if err != nil {
		return report, err
	}
	there, err := target.ReadFile(manifestName, manifestBytesMax, nil)
	if err == nil && !bytes.Equal(there, manifest) {
		return report, fmt.Errorf("shard: %s holds another set, or its manifest is damaged: "+
			"choose another path, or remove its %s to go on there", to, manifestName)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	files, err := copiedFiles(source, m)
	if err != nil {
		return report, err
	}
	c := copier{source: source, target: target, progress: progress}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(copiesUnderWay)
	for _, f := range files {
		c.total += f.size
	}
	for _, f := range files {
		group.Go(func() error { return c.copy(ctx, f) })
	}
	if err := group.Wait(); err != nil {
		return c.report, err
	}
	return c.report, target.Write(manifestName, fmt.Sprintf("%x", sha256.Sum256(manifest)), bytes.NewReader(manifest))
}

type copiedFile struct {
	name string
	size int64
	sum  string
}

// copiedFiles returns the files of a set except its manifest.
func copiedFiles(source storage.Storage, m *Manifest) (files []copiedFile, err error) {
	for _, s := range m.Shards {
		size := s.Bytes
		if s.Index != nil {
			size = s.Index.Bytes
		}
		files = append(files, copiedFile{s.Path, size, s.SHA256})
	}
	for _, name := range []string{ObjectsName, RejectsName} {
		data, err := source.ReadFile(name, objectsMax, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, copiedFile{name, int64(len(data)), fmt.Sprintf("%x", sha256.Sum256(data))})
	}
	return files, nil
}

// copier copies files, several at a time. mu guards what is below it, and progress is called under it: one call at a time, in rising order.
type copier struct {
	source   storage.Storage
	target   storage.Writer
	progress func(done, total int64)
	total    int64

	mu     sync.Mutex
	done   int64
	report CopyReport
}

func (c *copier) copy(ctx context.Context, f copiedFile) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	has, err := c.target.Has(f.name, f.size, f.sum)
	if err != nil {
		return err
	}
	if has {
		c.count(f.size)
		c.mu.Lock()
		c.report.Kept++
		c.mu.Unlock()
		return nil
	}
	file, err := c.source.Open(f.name, f.size, "")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w, and the manifest names it: only a whole set is copied", err)
	}
	if err != nil {
		return err
	}
	r := storage.NewReader(file)
	defer r.Close()
	if err := c.target.Write(f.name, f.sum, &checkedReader{Reader: r, ctx: ctx, copier: c, file: f, sha: sha256.New()}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Files++
	c.report.Bytes += f.size
	return nil
}

func (c *copier) count(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += bytes
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
}

// A checkedReader ends in an error if the bytes read do not have the file's checksum.
type checkedReader struct {
	io.Reader
	ctx    context.Context
	copier *copier
	file   copiedFile
	sha    hash.Hash
}

func (r *checkedReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	r.sha.Write(p[:n])
	r.copier.count(int64(n))
	if err == io.EOF {
		if got := hex.EncodeToString(r.sha.Sum(nil)); got != r.file.sum {
			err = corrupt(storage.Join(r.copier.source.String(), r.file.name), "file", 0,
				fmt.Errorf("SHA-256 %s, the manifest says %s", got, r.file.sum))
		}
	}
	return n, err
}
