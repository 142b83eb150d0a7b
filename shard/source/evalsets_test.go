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
	all := open(t, dir, Options{ClassesFrom: 3, Fields: asked(t, "corruption=path.1", "severity=path.2:int64")})
	got, err := fieldsOf(all)
	if want := map[string]any{"corruption": "fog", "severity": []any{5.0}[0]}; err != nil || len(got) != 8 || !reflect.DeepEqual(got["fog/5/n01443537/ILSVRC2012_val_00000002.JPEG"], want) {
		t.Errorf("all as one: %v, %v", got, err)
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

// TestReaL gives ReaL's lists of labels as a multi-hot vector, in folders with classes and without, and in the tar.
func TestReaL(t *testing.T) {
	dir := t.TempDir()
	var lists strings.Builder
	for i := range valImages {
		lists.WriteString([]string{"[", ", "}[min(i, 1)] + map[int]string{0: "[65, 3]", 1: "[]", 292: "[999]"}[i])
		if i != 0 && i != 1 && i != 292 {
			fmt.Fprintf(&lists, "[%d]", i%1000)
		}
	}
	real := sourcetest.Write(t, filepath.Join(dir, "real.json"), []byte(lists.String()+"]\n"))
	flat, sorted := make(map[string][]byte), make(map[string][]byte)
	var members []sourcetest.File
	for _, n := range []int{1, 2, 293} {
		name := fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", n)
		flat[name] = []byte(jpegStart)
		sorted[ilsvrcVal().classes[ilsvrcVal().labels[n-1]]+"/"+name] = []byte(jpegStart)
		members = append(members, sourcetest.File{Name: name, Data: []byte(jpegStart)})
	}
	multihot := func(places ...int) []any {
		v := make([]any, 1000)
		for i := range v {
			v[i] = 0.0
			if slices.Contains(places, i) {
				v[i] = 1.0
			}
		}
		return v
	}
	fields := asked(t, "real=@"+real+":multihot[1000]", "lists=@"+real)
	for _, path := range []string{writeTree(t, filepath.Join(dir, "flat/val"), flat), writeTree(t, filepath.Join(dir, "sorted/val"), sorted),
		sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_val.tar"), sourcetest.Tar(t, members...))} {
		got, err := fieldsOf(open(t, path, Options{Fields: fields}))
		if err != nil || len(got) != 3 {
			t.Fatalf("%s: %v, %v", path, got, err)
		}
		for key, values := range got {
			n, _ := valNumber(filepath.Base(key))
			want := map[int][]any{1: multihot(65, 3), 2: multihot(), 293: multihot(999)}[n]
			if !reflect.DeepEqual(values["real"], want) || fmt.Sprint(values["lists"]) != map[int]string{1: "[65 3]", 2: "[]", 293: "[999]"}[n] {
				t.Errorf("%s: %s has %v, %v", path, key, values["real"], values["lists"])
			}
		}
	}
	short := sourcetest.Write(t, filepath.Join(dir, "short.json"), []byte("[[1], [2]]"))
	for flag, want := range map[string]string{
		"real=@" + short + ":multihot[1000]":         "has 2 values, and there are 50000 validation images",
		"real=@/nowhere.json:multihot[1000]":         "/nowhere.json: no regular file",
		"real=@" + real + ":multihot[100]":           "the place 999 is not from 0 to 99",
		"real=@" + flatName(dir) + ":multihot[1000]": "is no JSON array",
		"folder=path.1":                              "lies in no 1 folders",
		"folder=path.x":                              "the folders of a path are path.1 to path.16",
	} {
		splits, err := Open(filepath.Join(dir, "flat/val"), Options{Fields: asked(t, flag)})
		if err == nil {
			_, err = fieldsOf(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	other := writeTree(t, filepath.Join(dir, "other"), tree())
	if _, err := fieldsOf(open(t, other, Options{Fields: fields})); err == nil || !strings.Contains(err.Error(), "is none of ILSVRC2012's validation images") {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(dir, "ILSVRC2012_img_val.tar"), Options{Fields: asked(t, "a=json")}); err == nil || !strings.Contains(err.Error(), "only @FILE and path.N are read") {
		t.Error(err)
	}
}

func flatName(dir string) string { return filepath.Join(dir, "flat/val/ILSVRC2012_val_00000001.JPEG") }
