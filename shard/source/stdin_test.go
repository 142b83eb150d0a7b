package source

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestStandardInput reads every kind of tar from a pipe, whose reads end anywhere, and compares with the file.
func TestStandardInput(t *testing.T) {
	dir := t.TempDir()
	var wds []string
	for i := range 40 {
		wds = append(wds, fmt.Sprintf("%02d.cls", i), fmt.Sprint(i%5), fmt.Sprintf("%02d.jpg", i), jpegStart+strings.Repeat("x", i*700))
	}
	val := sourcetest.Tar(t, sourcetest.File{Name: "ILSVRC2012_val_00000001.JPEG", Data: []byte(jpegStart)}, sourcetest.File{Name: "ILSVRC2012_val_00000490.JPEG", Data: []byte(jpegStart)})
	for name, data := range map[string][]byte{
		"class tars":      sourcetest.TarOfTars(t, tree(), 1),
		"class folders":   sourcetest.TarOfTree(t, tree(), "train/", 3),
		"WebDataset":      webDatasetTar(t, wds...),
		"validation":      val,
		"CIFAR-10":        sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(sourcetest.CIFARBatches(1)), "cifar-10-batches-bin/", 4)),
		"one large image": sourcetest.Tar(t, sourcetest.File{Name: "a/x.jpg", Data: []byte(jpegStart + strings.Repeat("y", 3<<20))}, sourcetest.File{Name: "b/x.jpg", Data: []byte(jpegStart)}),
	} {
		file := sourcetest.Write(t, filepath.Join(dir, "train", strings.ReplaceAll(name, " ", "")), data)
		want := testenv.Must(OpenAll([]string{file}, dataset.Options{}))(t)
		got, err := OpenAll([]string{StandardInput}, dataset.Options{Stdin: &smallReads{data}})
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, s := range got {
			gotItems, wantItems := mustItems(t, s), mustItems(t, want[i])
			if !reflect.DeepEqual(gotItems, wantItems) || len(gotItems) == 0 || !reflect.DeepEqual(s.Classes(), want[i].Classes()) || s.Format != want[i].Format {
				t.Errorf("%s: %d items from standard input, %d from the file; %s, %s", name, len(gotItems), len(wantItems), s.Format, want[i].Format)
			}
			if s.Streamed() && s.Bytes() != 0 {
				t.Errorf("%s: %d bytes", name, s.Bytes())
			}
		}
		if _, err := items(got[0]); got[0].Streamed() && (err == nil || !strings.Contains(err.Error(), "can be read once only")) {
			t.Errorf("%s: a second time gives %v", name, err)
		}
	}
	for want, data := range map[string][]byte{
		"standard input: neither a tar nor a tar.gz":     []byte("words"),
		"standard input: does not end in the two blocks": sourcetest.TarOfTree(t, tree(), "", 3)[:6*1024],
		"ends in the middle of an entry":                 sourcetest.TarOfTars(t, tree(), 3)[:9000],
	} {
		splits, err := OpenAll([]string{StandardInput}, dataset.Options{Stdin: bytes.NewReader(data)})
		if err == nil {
			_, err = items(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := OpenAll([]string{StandardInput}, dataset.Options{}); err == nil {
		t.Error("no standard input at all passes")
	}
	t.Chdir(dir)
	sourcetest.Write(t, filepath.Join(dir, "classes.txt"), []byte("a\nb\nc\nd\ne\n"))
	splits := testenv.Must(OpenAll([]string{StandardInput}, dataset.Options{Stdin: bytes.NewReader(webDatasetTar(t, wds...))}))(t)
	if mustItems(t, splits[0]); splits[0].Classes()[0] != "0" {
		t.Errorf("classes %q of a file that lies in the working directory by chance", splits[0].Classes())
	}
}

// smallReads gives a few bytes at a time, as pipes may.
type smallReads struct{ data []byte }

func (r *smallReads) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1000)], r.data)
	r.data = r.data[n:]
	return n, nil
}
