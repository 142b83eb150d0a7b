package shard

import (
	"errors"
	"fmt"
	"io"
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
