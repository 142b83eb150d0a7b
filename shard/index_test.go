package shard

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// writeIndex writes an index of one image, which it says to be a file of a source.
func writeIndex(t testing.TB, source, name string, image []byte, object storage.Object) string {
	t.Helper()
	dir, options := filepath.Join(t.TempDir(), "index"), testOptions(1)
	options.Source = source
	w := testenv.Must(NewSetWriter(dir, options))(t)
	defer w.Abort()
	testenv.Must(w.AddObject(IndexObject{Path: name, Object: object}))(t)
	sample := makeSamples(1)[0]
	sample.Image, sample.Outside = nil, OutsideOf(image)
	testenv.OK(t, w.Append(sample))
	testenv.Must(w.Commit())(t)
	return dir
}

// TestIndexOfAStranger reads no file outside the source, and over a network none of another host or of this machine, unless the user says so.
func TestIndexOfAStranger(t *testing.T) {
	image, dir := bytes.Repeat([]byte("secret"), 50), t.TempDir()
	testenv.OK(t, os.MkdirAll(filepath.Join(dir, "source", "below"), 0o700))
	for _, name := range []string{"outside", "source/inside", "source/below/inside"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), image, 0o600))
	}
	before := storage.Default
	defer func() { storage.Default = before }()
	storage.Default = storage.NewClient()
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	read := func(url string) error {
		set, err := OpenSet(url)
		if err != nil {
			return err
		}
		defer set.Close()
		record, _, err := set.Read(0, nil)
		if err == nil && !bytes.Equal(record.Image, image) {
			t.Error("another image is read")
		}
		return err
	}
	for name, is := range map[string]bool{"inside": true, "below/inside": true, "../outside": false, "below/../../outside": false, filepath.Join(dir, "outside"): false} {
		for _, source := range []string{filepath.Join(dir, "source"), web.URL + "/source"} {
			at := testenv.Must(storage.At(source))(t)
			object := storage.Object{Bytes: int64(len(image))}
			if is {
				object = testenv.Must(at.Stat(name))(t)
			} else if info, err := os.Stat(filepath.Join(dir, "outside")); err == nil && !storage.IsRemote(source) {
				object, _ = storage.NewFolder(dir).Stat(info.Name())
			}
			err := read(writeIndex(t, source, name, image, object))
			if (err == nil) != is || err != nil && !strings.Contains(err.Error(), "does not lie below "+source) {
				t.Errorf("%s below %s: %v", name, source, err)
			}
		}
	}
	for _, source := range []string{filepath.Join(dir, "source"), web.URL + "/source"} {
		at, _ := storage.At(source)
		object := testenv.Must(at.Stat("inside"))(t)
		index := httptest.NewServer(http.FileServer(http.Dir(writeIndex(t, source, "inside", image, object))))
		defer index.Close()
		if err := read(index.URL); err == nil || !strings.Contains(err.Error(), "may use only its own host") || !strings.Contains(err.Error(), "--allow-source") {
			t.Errorf("images in %s: %v", source, err)
		}
		storage.Default.Sources = []string{source}
		if err := read(index.URL); (err == nil) != storage.IsRemote(source) {
			t.Errorf("images in %s, which is allowed: %v", source, err)
		}
		storage.Default.Sources = nil
	}
}

// TestOneWrongAnswerOfAnIndex reads an index and its images though one answer is wrong, whichever it is.
func TestOneWrongAnswerOfAnIndex(t *testing.T) {
	image, dir := bytes.Repeat([]byte("image"), 50), t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "image"), image, 0o600))
	server := flipper{Handler: http.FileServer(http.Dir(dir)), flip: func(int) bool { return false }}
	web := httptest.NewServer(&server)
	defer web.Close()
	at := testenv.Must(storage.At(web.URL))(t)
	object := testenv.Must(at.Stat("image"))(t)
	testenv.OK(t, os.CopyFS(filepath.Join(dir, "index"), os.DirFS(writeIndex(t, web.URL, "image", image, object))))
	for wrong := 0; ; wrong++ {
		server.requests.Store(0)
		server.flip = func(n int) bool { return n == wrong }
		set, err := OpenSet(web.URL + "/index")
		if err != nil {
			t.Fatalf("answer %d is wrong: %v", wrong, err)
		}
		record, _, err := set.Read(0, nil)
		if err != nil || !bytes.Equal(record.Image, image) {
			t.Errorf("answer %d is wrong: %v", wrong, err)
		}
		set.Close()
		if int(server.requests.Load()) <= wrong {
			return
		}
	}
}
