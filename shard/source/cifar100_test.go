package source

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// requireCIFAR100 checks that a path holds the two splits of the batches, by both labels.
func requireCIFAR100(t *testing.T, path string, batches []sourcetest.CIFARBatch, fine, coarse []string) {
	t.Helper()
	for _, label := range []string{"", "fine", "coarse"} {
		splits, err := Open(path, Options{Label: label})
		if err != nil || len(splits) != 2 {
			t.Fatalf("%s: %v, %v", path, splits, err)
		}
		for i, s := range splits {
			prefix, want := []string{"train", "test"}[i], make(map[string]item)
			for k, f := range batches[i].Labels {
				it := item{label: int32(f), data: string(batches[i].Planes[k*3072:][:3072])}
				if label == "coarse" {
					it.label = int32(batches[i].Coarse[k])
				}
				want[fmt.Sprintf("%s/%s/%05d", prefix, fine[f], k)] = it
			}
			got := mustItems(t, s)
			for key, it := range got {
				it.data = string(decodeBMP(t, it.data))
				got[key] = it
			}
			classes := fine
			if label == "coarse" {
				classes = coarse
			}
			if !reflect.DeepEqual(got, want) || !slices.Equal(s.Classes(), classes) || !s.Decoded() {
				t.Errorf("%s, label %q, %s: %d items of %d classes differ from the %d wanted", path, label, s.Name, len(got), len(s.Classes()), len(want))
			}
			if !strings.Contains(s.Layout(), "images of CIFAR-100, the ") || !strings.Contains(strings.Join(s.Notes(), "\n"), "CIFAR-100 as published has") {
				t.Errorf("%s: %s, %q", path, s.Layout(), s.Notes())
			}
		}
	}
}

// TestCIFAR100 reads the folder and the archive.
func TestCIFAR100(t *testing.T) {
	dir := t.TempDir()
	batches, fine, coarse := sourcetest.CIFAR100Batches(1)
	binary := sourcetest.CIFAR100Binary(batches, fine, coarse)
	bin := writeTree(t, filepath.Join(dir, "bin/cifar-100-binary"), binary)
	requireCIFAR100(t, bin, batches, fine, coarse)
	requireCIFAR100(t, filepath.Dir(bin), batches, fine, coarse)
	requireCIFAR100(t, cifarArchive(t, filepath.Join(dir, "cifar-100-binary.tar.gz"), "cifar-100-binary", binary, 1), batches, fine, coarse)
}

func TestDamagedCIFAR100(t *testing.T) {
	batches, fine, coarse := sourcetest.CIFAR100Batches(2)
	files := sourcetest.CIFAR100Binary(batches, fine, coarse)
	for name, tc := range map[string]struct {
		file string
		data []byte // nil: it is missing
		want string
	}{
		"no coarse names":  {"coarse_label_names.txt", nil, `"coarse_label_names.txt": is missing`},
		"19 coarse names":  {"coarse_label_names.txt", []byte(strings.Join(coarse[:19], "\n")), "19 classes, not 20"},
		"99 fine names":    {"fine_label_names.txt", []byte(strings.Join(fine[:99], "\n")), "99 classes, not 100"},
		"coarse label 20":  {"train.bin", append([]byte{20}, files["train.bin"][1:]...), "image 0 has the label 20, the largest is 19"},
		"fine label 100":   {"test.bin", append([]byte{0, 100}, files["test.bin"][2:]...), "image 0 has the label 100, the largest is 99"},
		"half an image":    {"test.bin", files["test.bin"][:3000], "no whole number of records of 3074"},
		"that of CIFAR-10": {"test.bin", make([]byte, 3073), "no whole number of records of 3074"},
	} {
		damaged := maps.Clone(files)
		if damaged[tc.file] = tc.data; tc.data == nil {
			delete(damaged, tc.file)
		}
		splits, err := Open(writeTree(t, filepath.Join(t.TempDir(), "cifar-100-binary"), damaged), Options{})
		if err == nil {
			_, err = items(splits[1])
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	dir := t.TempDir()
	good := writeTree(t, filepath.Join(dir, "cifar-100-binary"), files)
	if _, err := Open(good, Options{Label: "superclass"}); err == nil || !strings.Contains(err.Error(), "has the labels fine and coarse") {
		t.Error(err)
	}
	ten := writeTree(t, filepath.Join(dir, "cifar-10-batches-bin"), sourcetest.CIFARBinary(sourcetest.CIFARBatches(1)))
	if _, err := Open(ten, Options{Label: "coarse"}); err == nil || !strings.Contains(err.Error(), "CIFAR-10 has one label") {
		t.Error(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "CIFAR-10 beside other data (cifar-100-binary)") {
		t.Error(err)
	}
}
