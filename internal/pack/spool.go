package pack

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/internal/source"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	// bucketBytesDefault is what a bucket should hold; it bounds the keys in memory, and what is read out of order lies close together.
	bucketBytesDefault = 256 << 20
	bucketsMax         = 512
	// bucketBufferBytes times bucketsMax is the memory that spooling takes.
	bucketBufferBytes = 128 << 10
	spoolHeaderBytes  = 8
)

// spoolFeed holds the samples of tars in buckets, each for one range of hashes. A bucket is a file of
//
//	content length u32 | key length u16 | reason length u16 | key | reason | content
//
// for each item, in the order in which they came.
type spoolFeed struct {
	path    string // of the source
	seed    uint64
	buckets []*bucket
	items   int
}

type bucket struct {
	file    *os.File
	w       *bufio.Writer
	size    int64
	pending atomic.Int64 // items that are not yet done; the file closes with the last
}

// newSpool makes the buckets' files in a folder and unlinks them at once.
func newSpool(folder, path string, seed uint64, buckets int64) (*spoolFeed, error) {
	f := &spoolFeed{path: path, seed: seed}
	n := min(max(1, buckets), bucketsMax)
	for i := range n {
		name := filepath.Join(folder, fmt.Sprintf("bucket-%03d", i))
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = os.Remove(name)
		}
		if err != nil {
			f.close()
			return nil, err
		}
		f.buckets = append(f.buckets, &bucket{file: file, w: bufio.NewWriterSize(file, bucketBufferBytes)})
	}
	return f, nil
}

// spool reads the source's tars into buckets.
func (b *builder) spool(ctx context.Context, split *source.Split) error {
	folder, err := b.writer.Scratch()
	if err != nil {
		return err
	}
	f, err := newSpool(folder, split.Path, b.options.Seed, split.Bytes()/b.options.bucketBytes+1)
	if err != nil {
		return err
	}
	b.feed = f
	var bytes int64
	var buf []byte
	err = split.Walk(ctx, func(it source.Item) error {
		if it.Data != nil {
			if int64(cap(buf)) < it.Size {
				buf = make([]byte, it.Size+it.Size/4)
			}
			buf = buf[:it.Size]
			if _, err := io.ReadFull(it.Data, buf); err != nil {
				return err
			}
		} else {
			buf = buf[:0]
		}
		bytes += int64(len(buf))
		if err := f.add(it.Key, it.Reason, buf); err != nil {
			return fmt.Errorf("spool %s: %w", split.Path, err)
		}
		b.report(StageRead, f.items, bytes, split.Bytes())
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range f.buckets {
		if err := k.w.Flush(); err != nil {
			return fmt.Errorf("spool %s: %w", split.Path, err)
		}
		k.w = nil
	}
	return nil
}

// add appends an item to the bucket of its hash.
func (f *spoolFeed) add(key, reason string, data []byte) error {
	hash := shard.OrderHash(f.seed, key)
	i, _ := bits.Mul64(hash, uint64(len(f.buckets)))
	k := f.buckets[i]
	var h [spoolHeaderBytes]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(len(data)))
	binary.LittleEndian.PutUint16(h[4:], uint16(len(key)))
	binary.LittleEndian.PutUint16(h[6:], uint16(len(reason)))
	k.w.Write(h[:])
	k.w.WriteString(key)
	k.w.WriteString(reason)
	_, err := k.w.Write(data) // the writer keeps its first error
	k.size += int64(len(h) + len(key) + len(reason) + len(data))
	f.items++
	return err
}

// list returns the items of a bucket, in order.
func (k *bucket) list(path string, seed uint64) ([]ref, error) {
	var refs []ref
	head := make([]byte, 256)
	for at := int64(0); at < k.size; {
		n, err := k.file.ReadAt(head, at)
		if n < spoolHeaderBytes {
			return nil, fmt.Errorf("spool: %w", err)
		}
		size := int64(binary.LittleEndian.Uint32(head))
		keyEnd := spoolHeaderBytes + int(binary.LittleEndian.Uint16(head[4:]))
		reasonEnd := keyEnd + int(binary.LittleEndian.Uint16(head[6:]))
		if reasonEnd > n {
			head = make([]byte, max(reasonEnd, len(head)))
			if n, err = k.file.ReadAt(head, at); n < reasonEnd {
				return nil, fmt.Errorf("spool: %w", err)
			}
		}
		r := ref{key: string(head[spoolHeaderBytes:keyEnd]), reason: string(head[keyEnd:reasonEnd]), bucket: k, offset: at + int64(reasonEnd), size: size}
		r.hash = shard.OrderHash(seed, r.key)
		refs = append(refs, r)
		at = r.offset + size
	}
	return refs, sortRefs(path, refs)
}

func (f *spoolFeed) refs() iter.Seq2[ref, error] {
	return func(yield func(ref, error) bool) {
		for _, k := range f.buckets {
			refs, err := k.list(f.path, f.seed)
			if err != nil {
				yield(ref{}, err)
				return
			}
			if len(refs) == 0 {
				k.file.Close()
			}
			k.pending.Store(int64(len(refs)))
			for _, r := range refs {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func (f *spoolFeed) load(r *ref, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < r.size+shard.SlackBytes {
		buf = make([]byte, r.size+r.size/4+shard.SlackBytes)
	}
	buf = buf[:r.size]
	if _, err := r.bucket.file.ReadAt(buf, r.offset); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return buf, nil
}

func (f *spoolFeed) done(r *ref) {
	if r.bucket.pending.Add(-1) == 0 {
		r.bucket.file.Close() // which frees its room on the disk
	}
}

func (f *spoolFeed) count() int { return f.items }

func (f *spoolFeed) close() {
	for _, k := range f.buckets {
		k.file.Close()
	}
}
