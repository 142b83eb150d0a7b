package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A Writer is a storage that files can be written to.
type Writer interface {
	Storage
	// Write makes a file of all that body has, and no file if that ends in an error. sum is the file's SHA-256 in hexadecimal
	// digits, or "".
	Write(name, sum string, body io.Reader) error
	// Has reports whether a file is there that has been written whole, with this length and sum.
	Has(name string, size int64, sum string) (bool, error)
	// Remove removes a file; a missing one is no error.
	Remove(name string) error
}

// WriterAt returns the default client's storage at a place, to write to: a folder's path, or the URL of a bucket.
func WriterAt(place string) (Writer, error) {
	s, err := At(place)
	if err != nil {
		return nil, err
	}
	if r, is := s.(*remote); is {
		if _, is := r.objects.(uploader); !is {
			return nil, fmt.Errorf("%s: nothing can be written there: name a folder or a bucket (s3://)", place)
		}
	}
	return s.(Writer), nil
}

// Write implements [Writer]. Before it is whole, the file has a hidden name.
func (f *Folder) Write(name, _ string, body io.Reader) error {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, path)
}

// Has implements [Writer], by reading the file.
func (f *Folder) Has(name string, size int64, sum string) (bool, error) {
	file, err := OpenRegular(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return n == size && hex.EncodeToString(hash.Sum(nil)) == sum, err
}

// Remove implements [Writer].
func (f *Folder) Remove(name string) error {
	err := os.Remove(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// An uploader is objects that takes some.
type uploader interface {
	// put makes an object of all that body has, in requests that it repeats itself.
	put(ctx context.Context, name, sum string, body io.Reader) error
	// sum returns an object's length, and the sum that it was put with. It makes one request, as remove does.
	sum(ctx context.Context, name string) (size int64, sum string, err error)
	remove(ctx context.Context, name string) error
}

// Write implements [Writer].
func (r *remote) Write(name, sum string, body io.Reader) error {
	err := r.objects.(uploader).put(r.client.Context, name, sum, body)
	if failed, is := errors.AsType[*RemoteError](err); is {
		failed.Place, failed.Length = Join(r.place, name), -1
	}
	return err
}

// Has implements [Writer].
func (r *remote) Has(name string, size int64, sum string) (has bool, err error) {
	err = r.repeat(name, 0, -1, func(ctx context.Context, _ func(int)) (string, error) {
		n, put, err := r.objects.(uploader).sum(ctx, name)
		has = err == nil && n == size && put == sum
		return "", err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return has, err
}

// Remove implements [Writer].
func (r *remote) Remove(name string) error {
	return r.repeat(name, 0, -1, func(ctx context.Context, _ func(int)) (string, error) {
		return "", r.objects.(uploader).remove(ctx, name)
	})
}
