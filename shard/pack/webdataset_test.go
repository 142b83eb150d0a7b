package pack

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// TestWebDatasetGivesTheSameBytes packs images from class folders, whose files have no extension, and from WebDataset's tars with the same keys,
// labels and class names: the sets are the same, byte for byte, whatever the tars.
func TestWebDatasetGivesTheSameBytes(t *testing.T) {
	dir, files := t.TempDir(), make(map[string][]byte)
	for name, data := range synthetic(t, 4, 12) {
		files[strings.TrimSuffix(name, ".JPEG")] = data
	}
	files["n90000001/bad"] = []byte("no image")
	var samples [][]sourcetest.File
	for key, data := range files { // in Go's random order
		label := key[len("n9000000"):len("n90000000")]
		samples = append(samples, []sourcetest.File{{Name: key + ".cls", Data: []byte(label)}, {Name: key + ".jpg", Data: data}, {Name: key + ".json", Data: []byte("{}")}})
	}
	names := ""
	for c := range 4 {
		names += synth.WNID(c) + "\n"
	}
	sourcetest.Write(t, filepath.Join(dir, "wds/train/classes.txt"), []byte(names))
	for i, part := range slices.Collect(slices.Chunk(samples, 20)) {
		var members []sourcetest.File
		for _, s := range part {
			slices.SortFunc(s, func(a, b sourcetest.File) int { return (2*i - 1) * strings.Compare(a.Name, b.Name) }) // the image first in one tar
			members = append(members, s...)
		}
		data := sourcetest.Tar(t, members...)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("wds/train/train-%06d.tar", i)), data)
		sourcetest.Write(t, filepath.Join(dir, fmt.Sprintf("gz/x-train-%06d.tar.gz", i)), sourcetest.Gzip(t, data))
	}
	folders := writeTree(t, filepath.Join(dir, "folders/train"), files)
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": mustPixels(t, "", "16", "")} {
		o := Options{Partitions: 3, Seed: 7, ShardBytes: 16 << 10, Encoding: encoder}
		out := func(of string) string { return filepath.Join(dir, name, of) }
		mustBuild(t, folders, out("folders"), o)
		want := sourcetest.ReadTree(t, out("folders"))
		sum := mustBuild(t, filepath.Join(dir, "wds"), out("wds"), o)
		if sum.Manifest.Samples != 48 || sum.Rejected != 1 || sum.Split != "train" {
			t.Errorf("%s: %d samples, %d rejected, split %s", name, sum.Manifest.Samples, sum.Rejected, sum.Split)
		}
		if got := sourcetest.ReadTree(t, out("wds")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another set from tars", name)
		}
		splits := testenv.Must(source.Open(filepath.Join(dir, "gz"), dataset.Options{Classes: filepath.Join(dir, "wds/train/classes.txt")}))(t)
		o.Jobs, o.spoolBytes = 5, 4<<10
		testenv.OK(t, BuildAll(context.Background(), Tasks(splits, out("gz")), o, func(Summary) {}))
		if got := sourcetest.ReadTree(t, out("gz")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another set from compressed tars", name)
		}
	}
}
