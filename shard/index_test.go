package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
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
	ownClient(t)
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	read := func(url string) error {
		set, err := OpenSet(url)
		if err != nil {
			return err
		}
		defer set.Close()
		record, _, err := set.Read(0, nil)
		testenv.Check(t, err != nil || bytes.Equal(record.Image, image), "another image is read")
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
			testenv.Check(t, (err == nil) == is && (err == nil || strings.Contains(err.Error(), "does not lie below "+source)),
				"%s below %s: %v", name, source, err)
		}
	}
	for _, source := range []string{filepath.Join(dir, "source"), web.URL + "/source"} {
		at, _ := storage.At(source)
		object := testenv.Must(at.Stat("inside"))(t)
		index := httptest.NewServer(http.FileServer(http.Dir(writeIndex(t, source, "inside", image, object))))
		defer index.Close()
		err := read(index.URL)
		testenv.Says(t, source, err, "may use only its own host")
		testenv.Says(t, source, err, "--allow-source")
		storage.Default.Sources = []string{source}
		err = read(index.URL)
		testenv.Check(t, (err == nil) == storage.IsRemote(source), "images in %s, which is allowed: %v", source, err)
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
		testenv.OK(t, err, "answer %d is wrong", wrong)
		record, _, err := set.Read(0, nil)
		testenv.OK(t, err, "answer %d is wrong", wrong)
		testenv.Same(t, record.Image, image, "answer %d is wrong: image", wrong)
		set.Close()
		if int(server.requests.Load()) <= wrong {
			return
		}
	}
}

// FuzzIndexTable opens any bytes as a file of an index, whose table says where each image lies; with sign, what the manifest says and the
// checksums are made to fit first. Of an accepted table each byte of the shard must be of one image, of the file, or a zero.
func FuzzIndexTable(f *testing.F) {
	dir := writeIndex(f, "/source", "a.jpg", bytes.Repeat([]byte("image"), 30), storage.Object{Bytes: 150})
	data := testenv.Must(os.ReadFile(filepath.Join(dir, shardPath(0, 0))))(f)
	for _, sign := range []bool{false, true} {
		f.Add(data, uint32(1), sign)
		f.Add(data[:len(data)-1], uint32(1), sign)
		f.Add(data[len(data)-locationSize-trailerSize:], uint32(1), sign)
		far := bytes.Clone(data) // The image would end behind the largest number.
		binary.LittleEndian.PutUint64(far[len(far)-locationSize-trailerSize:], 1<<63-1)
		f.Add(far, uint32(1), sign)
	}
	f.Fuzz(func(t *testing.T, data []byte, samples uint32, sign bool) {
		size, samples := int64(len(data)), samples%1000
		info := &ShardInfo{Samples: int(samples), Index: &ShardIndex{Bytes: size}}
		if table := size - trailerSize - locationSize*int64(samples); sign && table >= 0 {
			data = bytes.Clone(data)
			end := data[size-trailerSize:]
			le := binary.LittleEndian
			copy(end, magicIndex)
			le.PutUint32(end[8:], uint32(version1))
			le.PutUint32(end[12:], samples)
			info.Bytes, info.Index.Tail = int64(le.Uint64(end[16:])), int64(le.Uint64(end[40:]))
			le.PutUint32(end[trailerCRCAt-4:], crc32c.Checksum(data[table:size-trailerSize]))
			le.PutUint32(end[trailerCRCAt:], crc32c.Checksum(end[:trailerCRCAt]))
		}
		x := &indexedFile{set: &indexedStorage{objects: &objectLines{starts: make([]uint32, 2)}}, File: memoryFile{Reader: bytes.NewReader(data)}}
		if x.openTable(info) != nil {
			return
		}
		for at, pieces := int64(0), 0; at < x.Length; pieces++ {
			length, image, from := x.piece(at)
			testenv.Require(t, length > 0 && length <= x.Length-at && pieces <= 3*int(samples)+3,
				"a piece of %d bytes at %d of %d", length, at, x.Length)
			if image != nil && (at < image.at || at-image.at+length > int64(image.length)) || image == nil && from > max(size-length, -1) {
				t.Fatalf("%d bytes at %d are of %+v, or at %d of a file of %d", length, at, image, from, size)
			}
			at += length
		}
	})
}

// TestObjectLines looks up every object of a list.
func TestObjectLines(t *testing.T) {
	const n = 1000
	dir := t.TempDir() + "/index"
	w := testenv.Must(NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Source: "/data"}))(t)
	defer w.Abort()
	object := func(i int) IndexObject {
		return IndexObject{Path: fmt.Sprint("ä/", strings.Repeat("n", i%50), i), Object: storage.Object{Bytes: int64(i), Version: "v"}}
	}
	for i := range n {
		testenv.Equal(t, testenv.Must(w.AddObject(object(i)))(t), i, "index of an object")
	}
	m := testenv.Must(w.Commit())(t)
	l := testenv.Must(readObjects(storage.NewFolder(dir), m.Index.SHA256))(t)
	testenv.Equal(t, len(l.starts), n, "lines")
	for i := range n {
		testenv.Equal(t, testenv.Must(l.at(uint32(i)))(t), object(i), "object %d", i)
	}
}
