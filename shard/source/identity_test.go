package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

const pngHead = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

// identity is that of all splits at a path.
func identity(t *testing.T, path string) string {
	t.Helper()
	splits := testenv.Must(Open(path, dataset.Options{ClassOrder: dataset.ClassOrderString}))(t)
	var all []string
	for _, s := range splits {
		one := testenv.Must(s.Identity(t.Context()))(t)
		all = append(all, one)
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

// TestIdentity changes datasets of all forms that are read in place: what samples and labels come from makes another one, and nothing else
// does. Each change is made to what the ones before have left.
func TestIdentity(t *testing.T) {
	deep := "b/1/2/3/4/5/6/7/x.png"
	image := []byte(pngHead)
	wds := sourcetest.Tar(t, sourcetest.File{Name: "x.png", Data: image}, sourcetest.File{Name: "x.cls", Data: []byte("0")},
		sourcetest.File{Name: "y.png", Data: image}, sourcetest.File{Name: "y.cls", Data: []byte("1")})
	classTar := sourcetest.Tar(t, sourcetest.File{Name: "x.png", Data: image})
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
		"tars of WebDataset": {map[string][]byte{"s-000.tar": wds, "s-001.tar": sourcetest.Tar(t, sourcetest.File{Name: "z.cls", Data: []byte("0")},
			sourcetest.File{Name: "z.png", Data: image})}, "", []change{
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
		t.Run(name, func(t *testing.T) {
			root := writeTree(t, filepath.Join(t.TempDir(), "data"), tt.files)
			path := filepath.Join(root, tt.open)
			before := identity(t, path)
			for _, c := range tt.changes {
				testenv.OK(t, c.make(root))
				now := identity(t, path)
				if (now != before) != c.is {
					t.Errorf("%s: another dataset is %v, want %v", c.what, now != before, c.is)
				}
				before = now
			}
		})
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
		if (now != before) != c.is {
			t.Errorf("%s is %q: another dataset is %v, want %v", c.name, c.text, now != before, c.is)
		}
		before = now
	}
	if images > 0 {
		t.Errorf("%d requests for images", images)
	}
}
