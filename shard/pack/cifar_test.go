package pack

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/transform"
)

// TestCIFARSets packs the archive and the folder of CIFAR-10, in both encodings: these give the same bytes, and every image is served as it was.
func TestCIFARSets(t *testing.T) {
	dir, batches := t.TempDir(), sourcetest.CIFARBatches(7)
	archive := sourcetest.Write(t, filepath.Join(dir, "cifar-10-binary.tar.gz"),
		sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(batches), "cifar-10-batches-bin/", 1)))
	binary := writeTree(t, filepath.Join(dir, "cifar-10-batches-bin"), sourcetest.CIFARBinary(batches))
	pixels := mustPixels(t, "", "none", "")
	for name, encoder := range map[string]encoding.Encoding{"jpeg": original.Encoding{}, "pixels": pixels} {
		o := Options{Partitions: 2, Seed: 4, Encoding: encoder}
		a, b := filepath.Join(dir, name, "archive"), filepath.Join(dir, name, "folder")
		mustBuild(t, archive, a, o)
		if sum := mustBuild(t, binary, b, o); sum.Split != "val" || sum.Rejected != 0 {
			t.Errorf("%s: the last split is %+v", name, sum)
		}
		sameFiles(t, a, b)
		requireServed(t, filepath.Join(a, "train"), "train", batches[:5], pixels)
		requireServed(t, filepath.Join(a, "val"), "test", batches[5:], pixels)
	}
}

// requireServed checks the labels and pixels of a set of CIFAR-10.
func requireServed(t *testing.T, dir, prefix string, batches []sourcetest.CIFARBatch, e encoding.Encoding) {
	t.Helper()
	var labels, planes []byte
	for _, b := range batches {
		labels, planes = append(labels, b.Labels...), append(planes, b.Planes...)
	}
	spec := testenv.Must(transform.Parse(`[{"op":"CenterCrop","size":32}]`))(t)
	set, engine := openSet(t, dir), transform.NewEngine(0)
	if set.Len() != len(labels) {
		t.Fatalf("%s: %d samples, want %d", dir, set.Len(), len(labels))
	}
	for i := range set.Len() {
		key := testenv.Must(set.Key(i))(t)
		n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
		if err != nil || n >= len(labels) {
			t.Fatalf("%s: key %q: %v", dir, key, err)
		}
		r, _, err := set.Read(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s/%s/%05d", prefix, sourcetest.CIFARClasses[labels[n]], n); key != want || r.Label != int32(labels[n]) {
			t.Errorf("%s: key %q, label %d, want %q, label %d", dir, key, r.Label, want, labels[n])
		}
		src := transform.Source{Format: r.Format, Image: r.Image, Encoding: e}
		rgb := apply(t, engine, spec, src)
		for k, v := range planes[n*3072:][:3072] {
			if rgb[k%1024*3+k/1024] != v {
				t.Fatalf("%s: %s: pixel %d of plane %d is %d, want %d", dir, key, k%1024, k/1024, rgb[k%1024*3+k/1024], v)
			}
		}
	}
}
