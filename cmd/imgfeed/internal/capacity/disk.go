package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	diskReaders = 32   // reads under way at once
	diskAlign   = 4096 // of offsets, lengths and memory, for any disk's blocks
)

// DiskRate measures how many bytes a second the disk gives below these files when they are read as an epoch reads them: pieces of a record's
// size, all over, several at a time. It goes past the page cache. The error wraps errors.ErrUnsupported where the file system has no such reads.
func DiskRate(ctx context.Context, s *Sample, pieceBytes float64, d time.Duration) (bytesPerSecond float64, err error) {
	files, err := s.diskFiles(ctx)
	if err != nil {
		return 0, err
	}
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	length := (int(pieceBytes) + 2*diskAlign - 1) / diskAlign * diskAlign
	var bytes atomic.Int64
	readers, running := errgroup.WithContext(timed)
	started := time.Now()
	for r := range diskReaders {
		readers.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			memory := make([]byte, length+diskAlign)
			skip := -int(uintptr(unsafe.Pointer(&memory[0]))) & (diskAlign - 1)
			piece := memory[skip : skip+length]
			for first := true; first || running.Err() == nil; first = false { // on a busy machine the time may be over before the first
				n, err := readPiece(files[random.IntN(len(files))], piece, random)
				if err != nil {
					return err
				}
				bytes.Add(int64(n))
			}
			return nil
		})
	}
	if err := cmp.Or(readers.Wait(), ctx.Err()); err != nil {
		return 0, err
	}
	return float64(bytes.Load()) / time.Since(started).Seconds(), nil
}

// readPiece reads a piece of the file from a place of its own.
func readPiece(path string, piece []byte, random *rand.Rand) (int, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%s: the file system reads through the page cache only: %w", path, errors.ErrUnsupported)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if places := (info.Size() - int64(len(piece))) / diskAlign; places > 0 {
		if _, err := f.Seek(random.Int64N(places)*diskAlign, io.SeekStart); err != nil {
			return 0, err
		}
	}
	n, err := f.Read(piece)
	if err == io.EOF { // the file is empty
		err = nil
	}
	return n, err
}

// diskFiles returns files to measure the disk with: those of the set's shards that are here, or those below the dataset's path.
func (s *Sample) diskFiles(ctx context.Context) ([]string, error) {
	const enough = 4096
	root := s.Path
	if s.set != nil {
		root = s.set.Dir()
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") && filepath.Ext(d.Name()) != ".json":
			if files = append(files, path); len(files) == enough {
				return fs.SkipAll
			}
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: %w", root, os.ErrNotExist)
	}
	return files, err
}
