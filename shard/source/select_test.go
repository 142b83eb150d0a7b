package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestClassesSelectAndOrder packs some classes of a dataset by a list, as ImageNet-21K-P is of ImageNet-21k, and ImageNet-A's into ILSVRC2012's
// labels.
func TestClassesSelectAndOrder(t *testing.T) {
	dir := t.TempDir()
	list := sourcetest.Write(t, filepath.Join(dir, "list"), []byte("n10\nn77\nn01\n"))
	sourcetest.WriteTree(t, filepath.Join(dir, "folders"), tree())
	classTars := make(map[string][]byte)
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		classTars[class+".tar"] = data
	}
	sourcetest.WriteTree(t, filepath.Join(dir, "classes"), classTars)
	sourcetest.Write(t, filepath.Join(dir, "winter21_whole.tar.gz"), sourcetest.Gzip(t, sourcetest.TarOfTree(t, classTars, "winter21_whole/", 1)))
	sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.TarOfTree(t, tree(), "x/", 1))
	for _, name := range []string{"folders", "classes", "winter21_whole.tar.gz", "x.tar"} {
		s := open(t, filepath.Join(dir, name), dataset.Options{Classes: list})
		labelled(t, s, "n01/n01_2.JPEG=2 n01/n01_7.JPEG=2 n10/deep/er/x.png=0 n10/n10_3.JPEG=0", "n10 n77 n01")
		noted(t, s, "of its 3 classes 2 are here, and 1 others are left out")
		refuses(t, filepath.Join(dir, name), dataset.Options{Classes: "ilsvrc2012"}, "none of its classes (n01, n02, n10)")
	}
	few := open(t, forms(t, paths("n01498041/1.jpg", "n12144580/2.jpg"))[0], dataset.Options{Classes: "ilsvrc2012"}) // of ImageNet-A
	known := wordnet.Wnids()
	labelled(t, few, fmt.Sprintf("n01498041/1.jpg=%d n12144580/2.jpg=%d", slices.Index(known, "n01498041"), slices.Index(known, "n12144580")),
		strings.Join(known, " "))
}

// TestLabelInJSON reads labels that stand only in the JSON.
func TestLabelInJSON(t *testing.T) {
	dir := t.TempDir()
	data := webDatasetTar(t, "a.jpg", jpegStart+"a", "a.json", `{"label": 3, "alt_label": 1, "width": 5}`,
		"b.json", `{"label": 0, "alt_label": null}`, "b.jpg", jpegStart+"b")
	file := sourcetest.Write(t, filepath.Join(dir, "train.tar"), data)
	labelled(t, open(t, file, dataset.Options{Label: "json.label"}), "a=3 b=0", "0 1 2 3")
	s := open(t, file, dataset.Options{Label: "json.alt_label"})
	labelled(t, s, "a=1", "0 1")
	testenv.Contains(t, notes(s), "1 sample is left out: a json.alt_label that is null or negative is not a class")
	// A key that a sample lacks is an error, as a misspelt one is, unless the sample is not taken or needs no label.
	missing := sourcetest.Write(t, filepath.Join(dir, "missing.tar"), bytes.ReplaceAll(data, []byte(`"label": 0, "alt`), []byte(`"level": 0, "alt`)))
	refuses(t, missing, dataset.Options{Label: "json.label"}, `the sample "b" has no label: the JSON has no key label`)
	refuses(t, missing, dataset.Options{Label: "json.labl"}, `the sample "a" has no label: the JSON has no key labl`)
	without := sourcetest.Write(t, filepath.Join(dir, "without"), []byte("b\nnot here\n"))
	var excluding dataset.Selection
	testenv.OK(t, excluding.Exclude(without))
	labelled(t, open(t, missing, dataset.Options{Label: "json.label", Select: excluding}), "a=3", "0 1 2 3")
	testenv.Contains(t, strings.Join(excluding.Notes(), "\n"), "1 key that "+without+" names is not here (not here)")
	labelled(t, open(t, missing, dataset.Options{Label: "json.label", Test: true}), "a=3 b=-1", "0 1 2 3")
	withCls := webDatasetTar(t, "a.jpg", jpegStart+"a", "a.cls", "7", "a.json", `{"width": 5}`)
	sourcetest.Write(t, filepath.Join(dir, "cls.tar"), withCls)
	refuses(t, filepath.Join(dir, "cls.tar"), dataset.Options{Label: "alt_label"}, "it is json.KEY")
	labelled(t, open(t, filepath.Join(dir, "cls.tar"), dataset.Options{Label: "json.width"}), "a=5", "0 1 2 3 4 5")
	bad := sourcetest.Write(t, filepath.Join(dir, "bad.tar"), webDatasetTar(t, "a.jpg", "A", "a.json", `{"label": "cat"}`))
	refuses(t, bad, dataset.Options{Label: "json.label"}, "not a whole number")
	// timm's class ids are labels where the classes are named.
	ids := webDatasetTar(t, "a.jpg", jpegStart+"a", "a.json", `{"class_id": "n01443537"}`,
		"b.jpg", jpegStart+"b", "b.json", `{"class_id": "n00000000"}`)
	file = sourcetest.Write(t, filepath.Join(dir, "ids.tar"), ids)
	refuses(t, file, dataset.Options{Label: "json.class_id"}, "to name them as those of ILSVRC2012, add --classes ilsvrc2012")
	s = open(t, file, dataset.Options{Label: "json.class_id", Classes: "ilsvrc2012"})
	testenv.Equal(t, shown(t, s), "a=1", "labels by class ids")
	testenv.Contains(t, notes(s), "1 sample is left out: ilsvrc2012 does not name its class")
}

const pngHead = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// identity is that of all splits at a path.
func identity(t *testing.T, path string) string {
	t.Helper()
	var all []string
	for _, s := range testenv.Must(Open(path, dataset.Options{ClassOrder: dataset.ClassOrderString}))(t) {
		all = append(all, testenv.Must(s.Identity(t.Context()))(t))
	}
	return strings.Join(all, " ")
}

// A change is made to a dataset; is says whether it is another dataset then.
type change struct {
	what string
	is   bool
	make func(root string) error
}

func content(name, text string) func(string) error {
	return func(root string) error {
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		return os.WriteFile(path, []byte(text), 0o600)
	}
}

func touch(name string) func(string) error {
	return func(root string) error {
		return os.Chtimes(filepath.Join(root, name), time.Time{}, time.Now().Add(time.Hour))
	}
}

func rename(from, to string) func(string) error {
	return func(root string) error { return os.Rename(filepath.Join(root, from), filepath.Join(root, to)) }
}

// TestFolderForAFile names what is wanted where an option is given a folder.
func TestFolderForAFile(t *testing.T) {
	dir := sourcetest.WriteTree(t, t.TempDir(), paths("a/1.jpg", "b/2.jpg"))
	testenv.Says(t, "classes", refusal(dir, dataset.Options{Classes: dir}), dir+": a folder: class names stand in a file")
	testenv.Says(t, "a selection", new(dataset.Selection).Only(dir), "a folder: keys of samples stand in a file")
}

// TestIdentity changes datasets of all forms that are read in place: what samples and labels come from makes another one, and nothing else
// does. Each change is made to what the ones before have left.
func TestIdentity(t *testing.T) {
	deep := "b/1/2/3/4/5/6/7/x.png"
	image := []byte(pngHead)
	wds := webDatasetTar(t, "x.png", pngHead, "x.cls", "0", "y.png", pngHead, "y.cls", "1")
	classTar := webDatasetTar(t, "x.png", pngHead)
	for name, tt := range map[string]struct {
		files   map[string][]byte
		open    string
		changes []change
	}{
		"class folders": {map[string][]byte{"a/x.png": image, deep: image, "b/pointer.png": []byte("version https://git-lfs")}, "", []change{
			{"a log beside the classes", false, content("train.log", "1")},
			{"it grows", false, content("train.log", "1 2")},
			{"a hidden file", false, content(".DS_Store", "x")},
			{"a hidden file in a class", false, content("a/.nfs0001", "x")},
			{"a log in a class", true, content("a/train.log", "1")},
			{"that log grows", false, content("a/train.log", "1 2")},
			{"it becomes an image", true, content("a/train.log", pngHead)},
			{"a file that was left out is mended", true, content("b/pointer.png", pngHead+"mended, and of another size")},
			{"an image far below has another size", true, content(deep, pngHead+"more")},
			{"and another date", true, touch(deep)},
			{"an image more", true, content("b/y.png", pngHead)},
			{"it goes to the other class", true, rename("b/y.png", "a/y.png")},
			{"a class more", true, content("c/x.png", pngHead)},
			{"a link to an image elsewhere", true, func(root string) error {
				return errors.Join(content("../elsewhere.png", pngHead)(root), os.Symlink("../../elsewhere.png", filepath.Join(root, "a/link.png")))
			}},
			{"that image", true, content("../elsewhere.png", pngHead+"more")},
			{"a list that nobody reads", false, content("classes.txt", "z\ny\n")},
		}},
		"splits": {map[string][]byte{"train/a/x.png": image, "train/b/x.png": image, "val/a/x.png": image, "val/b/x.png": image}, "", []change{
			{"a third folder", false, content("notes/x.txt", "1")},
			{"a log", false, content("val/log.txt", "1")},
			{"an image of val", true, content("val/b/x.png", pngHead+"more")},
		}},
		"a tar of WebDataset": {map[string][]byte{"train.tar": wds, "other.txt": nil}, "train.tar", []change{
			{"a file beside it", false, content("other.txt", "x")},
			{"the classes", true, content("classes.txt", "cat\ndog\n")},
			{"their order", true, content("classes.txt", "dog\ncat\n")},
			{"their date", false, touch("classes.txt")},
			{"timm's description", true, content("_info.json", `{"splits": {"train": {"num_samples": 2}}}`)},
			{"the tar", true, touch("train.tar")},
		}},
		"tars of WebDataset": {map[string][]byte{"s-000.tar": wds, "s-001.tar": webDatasetTar(t, "z.cls", "0", "z.png", pngHead)}, "", []change{
			{"a README", false, content("README.md", "x")},
			{"the classes", true, content("classnames.txt", "cat\ndog\n")},
			{"a tar", true, func(root string) error { return os.Remove(filepath.Join(root, "s-001.tar")) }},
		}},
		"class tars": {map[string][]byte{"a.tar": classTar, "b.tar": classTar}, "", []change{
			{"a log", false, content("train.log", "x")},
			{"a tar's date", true, touch("a.tar")},
			{"a tar's name", true, rename("a.tar", "c.tar")},
		}},
		"a list": {map[string][]byte{"l.csv": []byte("path,label\nim/x.png,0\nim/y.png,1\n"), "im/x.png": image, "im/y.png": image, "im/z.png": image}, "l.csv", []change{
			{"its date", false, touch("l.csv")},
			{"a label", true, content("l.csv", "path,label\nim/x.png,1\nim/y.png,1\n")},
			{"the classes", true, content("classes.txt", "cat\ndog\n")},
			{"an image that it does not name", false, content("im/z.png", pngHead+"more")},
			{"an image", true, content("im/y.png", pngHead+"more")},
			{"a row less", true, content("l.csv", "path,label\nim/x.png,1\n")},
		}},
		"metadata": {map[string][]byte{"metadata.csv": []byte("file_name,label\nx.png,cat\ny.png,dog\n"), "x.png": image, "y.png": image}, "", []change{
			{"a log", false, content("train.log", "x")},
			{"a label", true, content("metadata.csv", "file_name,label\nx.png,dog\ny.png,dog\n")},
		}},
	} {
		root := sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "data"), tt.files)
		path := filepath.Join(root, tt.open)
		before := identity(t, path)
		for _, c := range tt.changes {
			testenv.OK(t, c.make(root))
			now := identity(t, path)
			testenv.Equal(t, now != before, c.is, "%s: %s: another dataset", name, c.what)
			before = now
		}
	}
}

// TestIdentityInABucket knows files behind a network by the listing, without a request for each image.
func TestIdentityInABucket(t *testing.T) {
	files := map[string]string{"l.csv": "path,label\na/x.png,0\nb/y.png,1\n", "a/x.png": pngHead, "b/y.png": pngHead, "b/z.png": pngHead}
	images := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if folder, is := strings.CutPrefix(r.URL.Path, "/api/datasets/o/identity/tree/main"); is {
			var names []map[string]any
			folders := map[string]bool{}
			for name, text := range files {
				rest, below := strings.CutPrefix("/"+name, strings.TrimSuffix(folder, "/")+"/")
				if first, _, deeper := strings.Cut(rest, "/"); below && deeper && !folders[first] {
					folders[first] = true
					names = append(names, map[string]any{"type": "directory", "path": first})
				} else if below && !deeper {
					names = append(names, map[string]any{"type": "file", "path": name, "size": len(text), "oid": fmt.Sprintf("%x", text)})
				}
			}
			json.NewEncoder(w).Encode(names)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/datasets/o/identity/resolve/main/")
		text, here := files[name]
		if !here {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(name, ".png") {
			images++
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, text))
		http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
	}))
	defer server.Close()
	t.Setenv("HF_ENDPOINT", server.URL)
	const url = "hf://datasets/o/identity/l.csv"
	before := identity(t, url)
	for _, c := range []struct {
		name, text string
		is         bool
	}{
		{"a/x.png", pngHead, false},
		{"b/z.png", "not in the list", false},
		{"l.csv", "path,label\na/x.png,1\nb/y.png,0\n", true},
		{"a/x.png", strings.Replace(pngHead, "I", "J", 1), true},
	} {
		files[c.name] = c.text
		now := identity(t, url)
		testenv.Equal(t, now != before, c.is, "%s is %q: another dataset", c.name, c.text)
		before = now
	}
	testenv.Equal(t, images, 0, "requests for images")
}
