package shard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// newBucketStage begins a set in a bucket. Its files are written to their final places, and the manifest last, so the set is whole or
// absent. The partial folder, on this machine, is for temporary files.
func newBucketStage(place string) (*stage, error) {
	bucket, err := storage.WriterAt(place)
	if err != nil {
		return nil, err
	}
	switch _, err := readManifest(bucket); {
	case errors.Is(err, ErrNotSet):
	case err != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("shard: %s holds a shard set, and in a bucket none is replaced: remove it, or choose another place", place)
	}
	s := &stage{dir: place, bucket: bucket}
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

// A localFile is a file in the partial folder.
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

// abortBucket removes what was written.
func (s *stage) abortBucket() error {
	err := os.RemoveAll(s.partial)
	for _, name := range s.written {
		err = errors.Join(err, s.bucket.Remove(name))
	}
	s.bucket, s.written = nil, nil
	return err
}
