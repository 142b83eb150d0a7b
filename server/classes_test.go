package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestClassesOfAnyNumber asks for names that take more than a message.
func TestClassesOfAnyNumber(t *testing.T) {
	want := make([]string, 2*classesMax+1)
	for i := range want {
		want[i] = fmt.Sprint("class ", i)
	}
	dir := t.TempDir()
	writeClassSet(t, filepath.Join(dir, "train-shards"), "train", 2, 1, want, nil, func(int) []byte { return nil })
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 1, Slots: 1})
	var got []string
	for range 3 {
		reply := ask[classesReply](c, classesRequest{First: len(got)})
		testenv.Require(t, reply.First == len(got) && reply.Count == len(want), "after %d of %d names: %+v", len(got), len(want), reply)
		got = append(got, reply.Classes...)
	}
	testenv.Check(t, slices.Equal(got, want), "other names")
}
