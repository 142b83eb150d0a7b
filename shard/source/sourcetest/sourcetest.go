// Package sourcetest lays out small datasets on disk in the ways that package source reads, for tests.
package sourcetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
		testenv.OK(t, w.WriteHeader(h))
		testenv.Must(w.Write(f.Data))(t)
	}
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

// Gzip returns the data compressed.
func Gzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	testenv.Must(w.Write(data))(t)
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

// Write writes a file and the folders that it lies in, and returns its path.
func Write(t testing.TB, path string, data []byte) string {
	t.Helper()
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
	testenv.OK(t, os.WriteFile(path, data, 0o666))
	return path
}

// WriteTree writes files below a folder, by their paths in it, and returns the folder.
func WriteTree(t testing.TB, root string, files map[string][]byte) string {
	t.Helper()
	for p, data := range files {
		Write(t, filepath.Join(root, p), data)
	}
	return root
}

// ReadTree returns the files below a folder, by their paths relative to it.
func ReadTree(t testing.TB, root string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	testenv.OK(t, fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[p], err = os.ReadFile(filepath.Join(root, p))
		return err
	}))
	return files
}

// Flip changes bits in each step-th byte, from the first, of the files that a pattern matches.
func Flip(t testing.TB, pattern string, first, step int) {
	t.Helper()
	files := testenv.Must(filepath.Glob(pattern))(t)
	if len(files) == 0 {
		t.Fatalf("no file is called %s", pattern)
	}
	for _, path := range files {
		data := testenv.Must(os.ReadFile(path))(t)
		for i := first; i < len(data); i += step {
			data[i] ^= 0x55
		}
		Write(t, path, data)
	}
}

// shuffled returns a map's keys in an order that depends on the seed.
func shuffled[V any](m map[string]V, seed uint64) []string {
	keys := slices.Collect(maps.Keys(m))
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

// CIFARClasses are the classes of CIFAR-10, in the order of their labels.
var CIFARClasses = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// CIFARBatch is what one file of CIFAR-10 holds.
type CIFARBatch struct {
	Labels []byte
	Coarse []byte // only CIFAR-100 has them
	Planes []byte // 3072 bytes for each image: red, green, blue
}

// CIFARBatches makes five batches for training and one for testing, of 3, 4, 5, 6, 7 and 8 random images.
func CIFARBatches(seed uint64) []CIFARBatch {
	rng := rand.NewChaCha8([32]byte{byte(seed)})
	var batches []CIFARBatch
	for n := range 6 {
		b := CIFARBatch{Labels: make([]byte, n+3), Planes: make([]byte, (n+3)*3072)}
		rng.Read(b.Planes)
		for i := range b.Labels {
			b.Labels[i] = byte(rng.Uint64() % 10)
		}
		batches = append(batches, b)
	}
	return batches
}

func cifarBatchName(i int) string {
	if i == 5 {
		return "test_batch"
	}
	return fmt.Sprintf("data_batch_%d", i+1)
}

// CIFARBinary returns the files of the binary version.
func CIFARBinary(batches []CIFARBatch) map[string][]byte {
	files := map[string][]byte{
		"batches.meta.txt": []byte(strings.Join(CIFARClasses, "\n") + "\n\n"),
		"readme.html":      []byte("<html>"),
	}
	for i, b := range batches {
		var data []byte
		for k, label := range b.Labels {
			data = append(append(data, label), b.Planes[k*3072:][:3072]...)
		}
		files[cifarBatchName(i)+".bin"] = data
	}
	return files
}
