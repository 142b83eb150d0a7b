package pack

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	// spoolFileBytesDefault is the size of a spool file. It bounds the keys in memory, and keeps reads out of order close together.
	spoolFileBytesDefault = 256 << 20
	spoolFilesMax         = 512
	spoolFilesUnsized     = 128       // the same for input of unknown size, such as standard input
	spoolBufferBytes      = 128 << 10 // times spoolFilesMax is the memory that spooling takes
	spoolHeaderBytes      = 20
)

// spoolInput is the samples of tars. gather spreads them over spool files, each for one range of hashes. A spool file has
// the items in their order of arrival. Each item is:
//
//	content length u32 | fields length u32 | key length u32 | reason length u32 | label i32 | key | reason | fields | content
type spoolInput struct {
	split   *dataset.Split
	objects *objectFiles // nil: the content is the image; else where it lies, a tarRange
	seed    uint64
	part    Part
	spools  []*spoolFile
	added   int // items
	// The next spool file to list, and the remaining items of the one before it.
	at    int
	items []item[spooled]
}

// spooled says where an item lies in a spool file.
type spooled struct {
	reason string // why the item cannot be a sample, or ""
	label  int32  // transport.Item.Label
	file   *spoolFile
	offset int64 // start of the fields, which the content follows
	fields int64 // bytes
	size   int64
}

type spoolFile struct {
	file    *os.File
	w       *bufio.Writer
	size    int64
	pending atomic.Int64 // unfinished items; the file closes with the last
}

func (s *spoolInput) count() int { return s.added }

// makeFiles makes the spool files in a folder and unlinks them at once.
func (s *spoolInput) makeFiles(folder string, n int64) error {
	for range min(max(1, n), spoolFilesMax) {
		file, err := os.CreateTemp(folder, "spool-")
		if err != nil {
			return err
		}
		s.spools = append(s.spools, &spoolFile{file: file, w: bufio.NewWriterSize(file, spoolBufferBytes)})
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}
	return nil
}

// gather reads the source's tars into spool files.
func (s *spoolInput) gather(ctx context.Context, b *builder) ([]string, error) {
	folder, err := b.writer.Scratch()
	if err != nil {
		return nil, err
	}
	s.seed, s.part = b.options.Seed, b.options.Part
	if err := s.checkRoom(folder); err != nil {
		return nil, err
	}
	n := s.split.Bytes()/int64(max(1, s.part.Of))/b.options.spoolBytes + 1
	if s.split.Bytes() == 0 {
		n = spoolFilesUnsized
	}
	if err := s.makeFiles(folder, n); err != nil {
		return nil, err
	}
	if err := s.walk(ctx, b); err != nil {
		return nil, err
	}
	for _, k := range s.spools {
		if err := k.w.Flush(); err != nil {
			return nil, s.wrap(err)
		}
		k.w = nil
	}
	return s.split.Classes(), nil
}

// walk reads the source's tars and spools all of them.
func (s *spoolInput) walk(ctx context.Context, b *builder) error {
	var bytes int64
	var buf []byte
	return s.split.Walk(ctx, func(it transport.Item) (err error) {
		if own, err := b.wants(&it); err != nil || !own {
			return err
		}
		switch {
		case it.Data == nil || s.objects != nil && it.Reason != "":
			buf = buf[:0]
		case s.objects != nil:
			var n int
			if n, err = s.objects.tar(it.Object(), b.writer); err == nil {
				buf, err = binary.Append(buf[:0], binary.LittleEndian, tarRange{int64(n), it.Offset, it.Size})
			}
		default:
			buf = slices.Grow(buf[:0], int(it.Size))[:it.Size]
			_, err = io.ReadFull(it.Data, buf)
		}
		if err != nil {
			return err
		}
		bytes += it.Size
		b.report(StageRead, s.added+1, bytes, s.split.Bytes())
		return s.add(it, buf)
	})
}

func (s *spoolInput) wrap(err error) error { return fmt.Errorf("spool %s: %w", s.split.Path, err) }

// add appends an item to the spool file of its hash.
func (s *spoolInput) add(it transport.Item, data []byte) error {
	_, at := s.part.share(shard.OrderHash(s.seed, it.Key))
	i, _ := bits.Mul64(at, uint64(len(s.spools)))
	k := s.spools[i]
	for _, n := range []int{len(data), len(it.Fields), len(it.Key), len(it.Reason), int(it.Label)} {
		k.w.Write(binary.LittleEndian.AppendUint32(k.w.AvailableBuffer(), uint32(n)))
	}
	k.w.WriteString(it.Key)
	k.w.WriteString(it.Reason)
	k.w.Write(it.Fields)
	_, err := k.w.Write(data) // the writer keeps its first error
	k.size += int64(spoolHeaderBytes + len(it.Key) + len(it.Reason) + len(it.Fields) + len(data))
	s.added++
	if err != nil {
		return s.wrap(err)
	}
	return nil
}

// list makes the items of a spool file the next ones.
func (s *spoolInput) list(k *spoolFile) error {
	s.items = nil
	head := make([]byte, 256)
	for at := int64(0); at < k.size; {
		n, err := k.file.ReadAt(head, at)
		if n < spoolHeaderBytes {
			return s.wrap(err)
		}
		size, fields := int64(binary.LittleEndian.Uint32(head)), int64(binary.LittleEndian.Uint32(head[4:]))
		keyEnd := spoolHeaderBytes + int(binary.LittleEndian.Uint32(head[8:]))
		reasonEnd := keyEnd + int(binary.LittleEndian.Uint32(head[12:]))
		if reasonEnd > n {
			head = make([]byte, max(reasonEnd, len(head)))
			if n, err = k.file.ReadAt(head, at); n < reasonEnd {
				return s.wrap(err)
			}
		}
		reason, label := string(head[keyEnd:reasonEnd]), int32(binary.LittleEndian.Uint32(head[16:]))
		s.items = append(s.items, newItem(s.seed, string(head[spoolHeaderBytes:keyEnd]),
			spooled{reason, label, k, at + int64(reasonEnd), fields, size}))
		at += int64(reasonEnd) + fields + size
	}
	return sortItems(s.split.Path, s.items)
}

func (s *spoolInput) next(im *inFlight) error {
	for len(s.items) == 0 {
		if s.at == len(s.spools) {
			return io.EOF
		}
		k := s.spools[s.at]
		s.at++
		if err := s.list(k); err != nil {
			return err
		}
		if len(s.items) == 0 {
			k.file.Close()
		}
		k.pending.Store(int64(len(s.items)))
	}
	it := s.items[0]
	im.key, im.spooled, im.reason, im.label = it.key, it.at, it.at.reason, s.split.Label(it.at.label)
	s.items = s.items[1:]
	return nil
}

func (s *spoolInput) load(im *inFlight) error {
	at := im.spooled
	im.data = slices.Grow(im.data[:0], int(at.size)+shard.SlackBytes)[:at.size]
	im.fields = slices.Grow(im.fields[:0], int(at.fields))[:at.fields]
	if _, err := at.file.file.ReadAt(im.fields, at.offset); err != nil {
		return s.wrap(err)
	}
	if _, err := at.file.file.ReadAt(im.data, at.offset+at.fields); err != nil {
		return s.wrap(err)
	}
	if s.objects != nil {
		return s.objects.read(im)
	}
	return nil
}

func (s *spoolInput) done(im *inFlight) {
	if b := im.spooled.file; b.pending.Add(-1) == 0 {
		b.file.Close() // Closing frees the file's room on the disk.
	}
}

func (s *spoolInput) close() {
	for _, k := range s.spools {
		k.file.Close()
	}
	if s.objects != nil {
		s.objects.close()
	}
}

// checkRoom refuses to start spooling a tar onto a disk that cannot hold it.
func (s *spoolInput) checkRoom(folder string) error {
	var st unix.Statfs_t
	if unix.Statfs(folder, &st) != nil {
		return nil // no reason to end
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	need := s.split.Bytes() / int64(max(1, s.part.Of))
	if need += need / 50; free < need && s.objects == nil {
		return fmt.Errorf("%s has %.1f MB free, and packing %s takes about %.1f MB there: free some space, or give another path with -o",
			filepath.Dir(folder), float64(free)/1e6, s.split.Path, float64(need)/1e6)
	}
	return nil
}
