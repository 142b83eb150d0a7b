package pack

import (
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestCIFARSets packs the archive and the folder of CIFAR-10, in both encodings: these give the same bytes.
func TestCIFARSets(t *testing.T) {
	dir, files := t.TempDir(), sourcetest.CIFARBinary(sourcetest.CIFARBatches(7))
	archive := sourcetest.Write(t, filepath.Join(dir, "cifar-10-binary.tar.gz"),
		sourcetest.Gzip(t, sourcetest.TarOfTree(t, files, "cifar-10-batches-bin/", 1)))
	binary := writeTree(t, filepath.Join(dir, "cifar-10-batches-bin"), files)
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": mustPixels(t, "", "none", "")} {
		o := Options{Partitions: 2, Seed: 4, Encoding: encoder}
		a, b := filepath.Join(dir, name, "archive"), filepath.Join(dir, name, "folder")
		mustBuild(t, archive, a, o)
		if sum := mustBuild(t, binary, b, o); sum.Split != "val" || sum.Rejected != 0 {
			t.Errorf("%s: the last split is %+v", name, sum)
		}
		sameFiles(t, a, b)
	}
}
