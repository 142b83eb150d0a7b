// Package sourcetest lays out small datasets on disk in the ways that package source reads, for tests.
package sourcetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// File is an entry of a tar. A Name that ends in "/" is a folder.
type File struct {
	Name string
	Data []byte
	Type byte   // the tar entry's type; 0: a regular file
	Link string // a link's target
}

// Tar returns a tar of the files.
func Tar(t testing.TB, files ...File) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: 0o644, Size: int64(len(f.Data)), Typeflag: tar.TypeReg, Linkname: f.Link}
		switch {
		case f.Type != 0:
			h.Typeflag = f.Type
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Gzip returns the data compressed.
func Gzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Write writes a file and the folders that it lies in, and returns its path.
func Write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// ReadTree returns the files below a folder, by their paths relative to it.
func ReadTree(t testing.TB, root string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[p], err = os.ReadFile(filepath.Join(root, p))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// shuffled returns a map's keys in an order that depends on the seed.
func shuffled[V any](m map[string]V, seed uint64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	rng := rand.New(rand.NewPCG(seed, 0)) // Go's order of maps is random as well
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// ClassTars makes a tar for each class of a tree of class folders, its entries in an order of the seed, by class.
func ClassTars(t testing.TB, tree map[string][]byte, seed uint64) map[string][]byte {
	t.Helper()
	classes := make(map[string][]File)
	for _, p := range shuffled(tree, seed) {
		class, rest, _ := strings.Cut(p, "/")
		classes[class] = append(classes[class], File{Name: rest, Data: tree[p]})
	}
	tars := make(map[string][]byte)
	for class, files := range classes {
		tars[class] = Tar(t, files...)
	}
	return tars
}

// TarOfTars makes a tar of the class tars, as ILSVRC2012_img_train.tar is.
func TarOfTars(t testing.TB, tree map[string][]byte, seed uint64) []byte {
	t.Helper()
	tars := ClassTars(t, tree, seed)
	var files []File
	for _, class := range shuffled(tars, seed) {
		files = append(files, File{Name: class + ".tar", Data: tars[class]})
	}
	return Tar(t, files...)
}

// TarOfTree makes a tar of a tree, with a prefix before each name.
func TarOfTree(t testing.TB, tree map[string][]byte, prefix string, seed uint64) []byte {
	t.Helper()
	var files []File
	for _, p := range shuffled(tree, seed) {
		files = append(files, File{Name: prefix + p, Data: tree[p]})
	}
	return Tar(t, files...)
}
