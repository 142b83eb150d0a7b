package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// TestObjectLines looks up every object of a list.
func TestObjectLines(t *testing.T) {
	const n = 1000
	dir := t.TempDir() + "/index"
	w := testenv.Must(NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Source: "/data"}))(t)
	defer w.Abort()
	object := func(i int) IndexObject {
		return IndexObject{Path: fmt.Sprint("ä/", strings.Repeat("n", i%50), i), Object: storage.Object{Bytes: int64(i), Version: "v"}}
	}
	for i := range n {
		if got, err := w.AddObject(object(i)); got != i || err != nil {
			t.Fatal(got, err)
		}
	}
	m := testenv.Must(w.Commit())(t)
	l := testenv.Must(readObjects(storage.NewFolder(dir), m.Index.SHA256))(t)
	if len(l.starts) != n {
		t.Errorf("%d lines", len(l.starts))
	}
	for i := range n {
		if got, err := l.at(uint32(i)); got != object(i) || err != nil {
			t.Fatalf("object %d: %+v, %v", i, got, err)
		}
	}
}
