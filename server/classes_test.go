package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard"
)

// TestClassesOfAnyNumber asks for names that take more than a message.
func TestClassesOfAnyNumber(t *testing.T) {
	want := make([]string, 72_000)
	if testing.Short() { // as under the race detector, which takes half a minute for so many
		want = want[:10_000]
	}
	for i := range want {
		want[i] = fmt.Sprintf("%d %s", i, strings.Repeat("<", 250)) // in JSON six bytes each
	}
	dir := filepath.Join(t.TempDir(), "train-shards")
	w, err := shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: want})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Append(shard.Sample{Key: "a", Width: 8, Height: 6, Image: []byte{1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	c := startServer(t, dir, nil).dial()
	c.hello()
	c.open(openRequest{Transform: []byte(`"eval"`), BatchSize: 1, Slots: 1})
	var got []string
	for requests := 0; len(got) < len(want); requests++ {
		c.send(classesRequest{First: len(got)})
		reply := expect[classesReply](c)
		if reply.First != len(got) || reply.Count != len(want) || len(reply.Classes) == 0 || requests > 20 {
			t.Fatalf("after %d of %d names: %d from %d on, of %d", len(got), len(want), len(reply.Classes), reply.First, reply.Count)
		}
		got = append(got, reply.Classes...)
	}
	if !slices.Equal(got, want) {
		t.Error("other names")
	}
}
