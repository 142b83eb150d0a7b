package source

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// goZip is the files of a zip as archive/zip reads them.
func goZip(path string) (map[string]string, error) {
	r, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	files := make(map[string]string)
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		m, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(m, 1<<20))
		if err != nil {
			return nil, err
		}
		files[f.Name] = string(data)
	}
	return files, nil
}

// readAllOf are the regular files below a folder of a tree.
func readAllOf(t *transport.ZipTree, zip, folder string, files map[string]string) error {
	entries, err := t.List(filepath.Join(zip, folder))
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if e.IsDir() {
			err = readAllOf(t, zip, name, files)
		} else if e.Type().IsRegular() {
			var r io.ReadCloser
			if r, err = t.Open(filepath.Join(zip, name)); err == nil {
				var data []byte
				data, err = io.ReadAll(io.LimitReader(r, 1<<20))
				files[name] = string(data)
			}
		}
		if err != nil {
			return err
		}
	}
	return err
}

// TestZipsOfPython reads zips of Python's zipfile, and compares them with what archive/zip reads.
func TestZipsOfPython(t *testing.T) {
	dir := t.TempDir()
	fromPython(t, "zipfile", "zips.py", nil, dir)
	for _, name := range []string{"stored.zip", "packed.zip", "large.zip", "link.zip"} {
		path := filepath.Join(dir, name)
		want, err := goZip(path)
		testenv.Require(t, err == nil && len(want) >= 7, "%s: %d files, %v", name, len(want), err)
		delete(want, "cow/link.jpg")
		z, err := transport.OpenZip(path)
		got := make(map[string]string)
		if err == nil {
			err = readAllOf(z, path, "", got)
		}
		testenv.Check(t, err == nil && maps.Equal(got, want),
			"%s: %q, want %q; %v", name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)), err)
		for key, e := range map[string]bool{"": true, "cat": true, "cow": true, "cat/0é.jpg": false} {
			if info, err := z.Stat(filepath.Join(path, key)); err != nil || info.IsDir() != e || key != "" && info.Name() != filepath.Base(key) {
				t.Errorf("%s: %q: %v, %v", name, key, info, err)
			}
		}
		for _, key := range []string{"ca", "cat/", "cat/0", "x/y"} {
			testenv.Fails(z.Stat(path+"/"+strings.TrimSuffix(key, "/")+"_"))(t, nil, "%s: %q is there", name, key)
		}
	}
	s := open(t, filepath.Join(dir, "link.zip"), dataset.Options{})
	got := mustItems(t, s)
	testenv.Check(t, got["cow/link.jpg"].reason == transport.ReasonLink && got["cow/x.jpg"].data == jpegStart, "a link: %v", got)
	testenv.Fails(items(open(t, filepath.Join(dir, "bzip2.zip"), dataset.Options{})))(t, "cannot be unpacked here: pack it again by deflate")
	data := testenv.Must(os.ReadFile(filepath.Join(dir, "packed.zip")))(t)
	behind := sourcetest.Write(t, filepath.Join(dir, "behind.zip"), append([]byte("PK\x03\x04 what unpacks itself"), data...))
	testenv.Equal(t, len(mustItems(t, open(t, behind, dataset.Options{}))), len(testenv.Must(goZip(behind))(t)), "items behind another file")
	for want, change := range map[string]func([]byte) []byte{
		"zip: checksum error":       func(d []byte) []byte { return bytes.Replace(d, []byte(jpegStart), []byte("\xff\xd8\xff\xe1"), 1) },
		"cannot be read: it is dam": func(d []byte) []byte { return bytes.Replace(d, []byte("PK\x01\x02"), []byte("PK\x01\x03"), 1) },
		"zip: not a valid zip file": func(d []byte) []byte { return bytes.ReplaceAll(d, []byte("PK\x03\x04-"), []byte("PK\x03\x05-")) },
	} {
		data := testenv.Must(os.ReadFile(filepath.Join(dir, "stored.zip")))(t)
		if strings.Contains(want, "not a valid") {
			at := bytes.LastIndex(data, []byte("PK\x03\x04"))
			data[at+2] = 9
		} else {
			data = change(data)
		}
		refuses(t, sourcetest.Write(t, filepath.Join(dir, "bad.zip"), data), dataset.Options{}, want, filepath.Join(dir, "bad.zip"))
	}
}

// TestZipListIsSmall holds the memory of the list to what docs/packing.md says of it.
func TestZipListIsSmall(t *testing.T) {
	const n = 20_000
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := range n {
		testenv.Must(w.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("train/n%08d/n%08d_%d.JPEG", i/1000, i/1000, i)}))(t)
	}
	testenv.OK(t, w.Close())
	path := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.zip"), buf.Bytes())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	z := testenv.Must(transport.OpenZip(path))(t)
	testenv.Must(z.List(path))(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	testenv.Between(t, int64(after.HeapAlloc-before.HeapAlloc)/n, -310, 310, "bytes for each member")
	runtime.KeepAlive(z)
}

// Whatever is changed in a zip, it is read as archive/zip reads it, or refused with its name, and takes no memory for what is not there.
func FuzzZip(f *testing.F) {
	var sorts [][]byte
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		var buf bytes.Buffer
		w := zip.NewWriter(&buf)
		for _, name := range []string{"a/1.jpg", "b/2.jpg", "b/", "b/c/3.jpg"} {
			m, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
			testenv.OK(f, err)
			if !strings.HasSuffix(name, "/") {
				m.Write([]byte(jpegStart + name))
			}
		}
		w.Close()
		sorts = append(sorts, buf.Bytes())
		for at := 0; at < buf.Len(); at += 9 {
			f.Add(uint8(len(sorts)-1), uint16(at), []byte{0xff, 0xff, 0xff, 0xff}, uint16(2*at), []byte{0})
		}
	}
	path := filepath.Join(f.TempDir(), "x.zip")
	f.Fuzz(func(t *testing.T, sort uint8, at uint16, change []byte, at2 uint16, change2 []byte) {
		data := bytes.Clone(sorts[int(sort)%len(sorts)])
		copy(data[int(at)%len(data):], change)
		copy(data[int(at2)%len(data):], change2)
		sourcetest.Write(t, path, data)
		before := allocated()
		err := refusal(path, dataset.Options{})
		after := allocated()
		_, reject := errors.AsType[*transport.RejectError](err) // names no path on purpose
		testenv.Check(t, err == nil || reject || strings.Contains(err.Error(), path), "an error without the file's name: %v", err)
		testenv.Between(t, after-before, 0, fuzzAllocatedMax/4, "bytes that are allocated for a file of %d", len(data))
		z, err := transport.OpenZip(path)
		if err != nil {
			return
		}
		got := make(map[string]string)
		want, wantErr := goZip(path)
		if err := readAllOf(z, path, "", got); err != nil || wantErr != nil {
			return
		}
		for name, data := range got {
			w, ok := want[name]
			testenv.Check(t, !ok || w == data, "%s is %q, and archive/zip reads %q", name, data, w)
		}
	})
}
