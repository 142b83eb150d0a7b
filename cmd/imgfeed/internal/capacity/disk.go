package capacity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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
	ctx, cancel := context.WithTimeoutCause(ctx, d, errTimeUp)
	defer cancel()
	length := (int(pieceBytes) + 2*diskAlign - 1) / diskAlign * diskAlign
	var bytes atomic.Int64
	var running sync.WaitGroup
	var failed error
	var once sync.Once
	started := time.Now()
	for r := range diskReaders {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			memory := make([]byte, length+diskAlign)
			skip := -int(uintptr(unsafe.Pointer(&memory[0]))) & (diskAlign - 1)
			piece := memory[skip : skip+length]
			for first := true; first || ctx.Err() == nil; first = false { // on a busy machine the time may be over before the first
				n, err := readPiece(files[random.IntN(len(files))], piece, random)
				if err != nil {
					once.Do(func() { failed = err })
					cancel()
					return
				}
				bytes.Add(int64(n))
			}
		})
	}
	running.Wait()
	switch {
	case failed != nil:
		return 0, failed
	case !errors.Is(context.Cause(ctx), errTimeUp):
		return 0, ctx.Err()
	}
	return float64(bytes.Load()) / time.Since(started).Seconds(), nil
}

var errTimeUp = errors.New("the time is up")

// readPiece reads a piece of the file from a place of its own.
func readPiece(path string, piece []byte, random *rand.Rand) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		return 0, fmt.Errorf("%s: the file system reads through the page cache only: %w", path, errors.ErrUnsupported)
	} else if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	offset := int64(0)
	if places := (st.Size - int64(len(piece))) / diskAlign; places > 0 {
		offset = random.Int64N(places) * diskAlign
	}
	n, err := unix.Pread(fd, piece, offset)
	if err != nil {
		return 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return n, nil
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
