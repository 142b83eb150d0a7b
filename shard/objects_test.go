package shard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// countingFile counts the bytes that are read.
type countingFile struct {
	io.ReaderAt
	io.Closer
	bytes int
}

func (f *countingFile) ReadAt(p []byte, offset int64) (int, error) {
	f.bytes += len(p)
	return f.ReaderAt.ReadAt(p, offset)
}

// TestObjectLines looks up every object of a list: it reads a few lines for each, whatever the list's length.
func TestObjectLines(t *testing.T) {
	const n = 1000
	dir := t.TempDir() + "/index"
	w, err := NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Source: "/data"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	object := func(i int) IndexObject {
		return IndexObject{Path: fmt.Sprint("ä/", strings.Repeat("n", i%50), i), Object: storage.Object{Bytes: int64(i), Version: "v"}}
	}
	for i := range n {
		if got, err := w.AddObject(object(i)); got != i || err != nil {
			t.Fatal(got, err)
		}
	}
	long := IndexObject{Path: strings.Repeat("n", objectLineMax)}
	if _, err := w.AddObject(long); !errors.As(err, new(*LimitError)) {
		t.Errorf("a line that is too long: %v", err)
	}
	m, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	l, err := openObjects(storage.NewFolder(dir, nil), m.Index.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	counted := &countingFile{l.file, l.file, 0}
	if l.file = counted; l.count != n {
		t.Errorf("%d lines", l.count)
	}
	for i := range n {
		if got, err := l.at(uint32(i)); got != object(i) || err != nil {
			t.Fatalf("object %d: %+v, %v", i, got, err)
		}
	}
	if most := n * objectsStep * 100; counted.bytes > most {
		t.Errorf("%d bytes were read, want at most %d", counted.bytes, most)
	}
	for _, text := range []string{strings.Repeat("n", objectLineMax+1), "\n\n" + strings.Repeat("n", objectLineMax+1) + "\n"} {
		if err := (&objectLines{path: "list"}).scan(strings.NewReader(text)); !errors.As(err, new(*CorruptError)) {
			t.Errorf("a list with a line that is too long: %v", err)
		}
	}
}

// TestIndexBehindANetwork opens an index on a web server. Its list is copied to a file without a name, and nothing else is kept of
// what opening has read.
func TestIndexBehindANetwork(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	w, err := NewSetWriter(dir+"/index", SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Source: server.URL, Classes: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := os.WriteFile(dir+"/image", []byte("the image"), 0o666); err != nil {
		t.Fatal(err)
	}
	at, err := storage.At(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := at.Stat("image")
	if err != nil {
		t.Fatal(err)
	}
	sample := Sample{Key: "key", Width: 1, Height: 1, Format: 1, Aux: []byte("aux"), Outside: OutsideOf([]byte("the image"))}
	if _, err := w.AddObject(IndexObject{Path: "image", Object: pin}); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(sample); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	set, err := OpenSet(server.URL + "/index")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	set.opening.files.(*indexedStorage).tails.Range(func(path, _ any) bool {
		t.Errorf("the end of %s is kept", path)
		return true
	})
	if r, _, err := set.Read(0, nil); err != nil || string(r.Image)+string(r.Aux) != "the imageaux" {
		t.Errorf("%q, %v", r.Image, err)
	}
	if key, err := set.Key(0); key != "key" || err != nil {
		t.Error(key, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	t.Setenv("TMPDIR", dir+"/nowhere")
	if _, err := OpenSet(server.URL + "/index"); err == nil || !strings.Contains(err.Error(), "set TMPDIR to a folder with room for it") {
		t.Errorf("without a folder for temporary files: %v", err)
	}
}
