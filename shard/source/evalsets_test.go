package source

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// classTree is an image in each class folder below a prefix.
func classTree(prefix string, classes []string) map[string][]byte {
	files := make(map[string][]byte)
	for _, c := range classes {
		files[prefix+c+"/x.jpg"] = []byte(jpegStart + c)
	}
	return files
}

// TestEvaluationSetsHaveTheLabelsOfTheThousand packs ImageNet-A's and -R's classes, whose wnids say the labels.
func TestEvaluationSetsHaveTheLabelsOfTheThousand(t *testing.T) {
	thousand := classIndex(ilsvrcVal().classes)
	for _, set := range evaluationSets {
		classes := evaluationClasses(set.name)
		if len(classes) != 200 || !slices.IsSorted(classes) {
			t.Fatalf("%s: %d classes", set.name, len(classes))
		}
		dir := t.TempDir()
		folder := writeTree(t, filepath.Join(dir, set.name), classTree("", classes))
		tar := sourcetest.Write(t, filepath.Join(dir, "x", set.name+".tar"), sourcetest.TarOfTree(t, classTree(set.name+"/", classes), "", 1))
		for _, path := range []string{folder, tar} {
			s := open(t, path, Options{})
			for key, it := range mustItems(t, s) {
				if class, _, _ := strings.Cut(key, "/"); it.label != thousand[class] || it.data != jpegStart+class || len(s.Classes()) != 1000 || s.Classes()[it.label] != class {
					t.Errorf("%s: %s has the label %d", path, key, it.label)
				}
			}
			notes := strings.Join(s.Notes(), "\n")
			if want := fmt.Sprintf("%s has %s images, and here are 200", set.words, bytesize.Grouped(set.images)); s.Name != "val" || !strings.Contains(notes, want) || strings.Contains(notes, "training set") {
				t.Errorf("%s: split %s, %s", path, s.Name, notes)
			}
			s = open(t, path, Options{Classes: set.name})
			if got := mustItems(t, s); got[classes[199]+"/x.jpg"].label != 199 || len(s.Classes()) != 200 {
				t.Errorf("%s by its own classes: %q", path, s.Classes())
			}
			if s = open(t, path, Options{ForceClasses: true}); mustItems(t, s)[classes[7]+"/x.jpg"].label != 7 {
				t.Errorf("%s, forced", path)
			}
		}
	}
	if a, r := evaluationClasses("imagenet-a"), evaluationClasses("imagenet-r"); a[0] != "n01498041" || r[0] != "n01443537" || evaluationClasses("x") != nil {
		t.Errorf("first classes %s and %s", a[0], r[0])
	}
	few := writeTree(t, filepath.Join(t.TempDir(), "imagenet-a"), classTree("", evaluationClasses("imagenet-a")[1:]))
	s := open(t, few, Options{})
	if mustItems(t, s); len(s.Classes()) != 199 {
		t.Errorf("199 of the classes are labelled by %d", len(s.Classes()))
	}
}

func TestV2AndSketch(t *testing.T) {
	var numbers []string
	for i := range 1000 {
		numbers = append(numbers, fmt.Sprint(i))
	}
	const folder = "imagenetv2-matched-frequency-format-val"
	top := t.TempDir()
	tar := sourcetest.Write(t, filepath.Join(top, "tars/imagenetv2-matched-frequency.tar.gz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, classTree(folder+"/", numbers), "", 1)))
	archive := sourcetest.Write(t, filepath.Join(top, "imagenetv2.zip"), zipOf(t, classTree(folder+"/", numbers)))
	for _, path := range []string{tar, archive} {
		s := open(t, path, Options{})
		for key, it := range mustItems(t, s) {
			if class, _, _ := strings.Cut(key, "/"); fmt.Sprint(it.label) != class || it.data != jpegStart+class || s.Classes()[it.label] != ilsvrcVal().classes[it.label] {
				t.Fatalf("%s: %s has the label %d", path, key, it.label)
			}
		}
		if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "ImageNet-V2 has 10,000 images, and here are 1,000") {
			t.Errorf("%s: %s, %s", path, s.Name, notes)
		}
	}
	three := filepath.Join(top, "v2")
	for _, name := range []string{folder, "imagenetv2-threshold0.7-format-val", "imagenetv2-top-images-format-val"} {
		writeTree(t, filepath.Join(three, name), classTree("", numbers[:20]))
	}
	splits, err := Open(three, Options{})
	var names []string
	for _, s := range splits {
		names = append(names, s.Name)
		if got := mustItems(t, s); got["10/x.jpg"].label != 10 {
			t.Errorf("%s: %v", s.Name, got)
		}
	}
	if err != nil || strings.Join(names, " ") != "matched-frequency threshold0.7 top-images" {
		t.Errorf("splits %q, %v", names, err)
	}
	if s := open(t, three, Options{Split: "top-images"}); s.Output != filepath.Join(three, "imagenetv2-top-images-format-val-shards") {
		t.Errorf("one of the three to %s", s.Output)
	}
	sketch := sourcetest.Write(t, filepath.Join(top, "ImageNet-Sketch.zip"), zipOf(t, classTree("sketch/", ilsvrcVal().classes)))
	s := open(t, sketch, Options{})
	if got := mustItems(t, s); got["n01443537/x.jpg"].label != 1 || !strings.Contains(strings.Join(s.Notes(), "\n"), "ImageNet-Sketch has 50,889 images, and here are 1,000") {
		t.Errorf("sketch: %q", s.Notes())
	}
}

func TestCorruptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "imagenet-c")
	files, grouped := make(map[string][]byte), make(map[string][]byte)
	for _, c := range []string{"fog", "gaussian_noise"} {
		for _, severity := range []string{"1", "5"} {
			for i, wnid := range []string{"n01440764", "n01443537"} {
				key := fmt.Sprintf("%s/%s/%s/ILSVRC2012_val_%08d.JPEG", c, severity, wnid, i+1)
				files[key] = []byte(jpegStart + key)
				grouped[map[string]string{"fog": "weather/", "gaussian_noise": "noise/"}[c]+key] = files[key]
			}
		}
	}
	writeTree(t, dir, files)
	groups := writeTree(t, filepath.Join(t.TempDir(), "imagenet-c"), grouped)
	for _, path := range []string{dir, groups} {
		splits, err := Open(path, Options{})
		if err != nil || len(splits) != 4 {
			t.Fatalf("%s: %v, %v", path, splits, err)
		}
		for _, s := range splits {
			below := strings.ReplaceAll(s.Name, "-", "/") + "/"
			want := make(map[string]item)
			for key, data := range files {
				if rest, ok := strings.CutPrefix(key, below); ok {
					want[rest] = item{label: int32(strings.Count(rest, "n01443537")), data: string(data)}
				}
			}
			if got := mustItems(t, s); !reflect.DeepEqual(got, want) || s.Output != path+"-"+s.Name+"-shards" {
				t.Errorf("%s, %s to %s: %v, want %v", path, s.Name, s.Output, got, want)
			}
			if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "each set of ImageNet-C has 50,000 images") {
				t.Error(notes)
			}
		}
	}
	if s := open(t, dir, Options{Split: "fog-5"}); len(mustItems(t, s)) != 2 || s.Name != "fog-5" {
		t.Errorf("one of them: %s", s.Name)
	}
	if splits, err := Open(filepath.Join(dir, "fog"), Options{}); err != nil || len(splits) != 2 || splits[1].Output != dir+"-fog-5-shards" {
		t.Errorf("one corruption: %v, %v", splits, err)
	}
	if _, err := Open(dir, Options{Split: "fog"}); err == nil || !strings.Contains(err.Error(), `has no split "fog" among its 4`) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "fog/6"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "none of the severities 1 to 5") {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "fog/4"), 0o777); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "fog/6"))
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "fog/4: has no class folders") {
		t.Error(err)
	}
}
