package source

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

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
		"packed":          sourcetest.Gzip(t, sourcetest.TarOfTars(t, tree(), 2)),
		"class folders":   sourcetest.TarOfTree(t, tree(), "train/", 3),
		"WebDataset":      webDatasetTar(t, wds...),
		"WebDataset, gz":  sourcetest.Gzip(t, webDatasetTar(t, wds...)),
		"validation":      val,
		"CIFAR-10":        sourcetest.Gzip(t, sourcetest.TarOfTree(t, sourcetest.CIFARBinary(sourcetest.CIFARBatches(1)), "cifar-10-batches-bin/", 4)),
		"test images":     sourcetest.Tar(t, sourcetest.File{Name: "ILSVRC2012_test_00000001.JPEG", Data: []byte(jpegStart)}),
		"one large image": sourcetest.Tar(t, sourcetest.File{Name: "a/x.jpg", Data: []byte(jpegStart + strings.Repeat("y", 3<<20))}, sourcetest.File{Name: "b/x.jpg", Data: []byte(jpegStart)}),
	} {
		file := sourcetest.Write(t, filepath.Join(dir, "train", strings.ReplaceAll(name, " ", "")), data)
		want, err := OpenAll([]string{file}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := OpenAll([]string{StandardInput}, Options{Stdin: &smallReads{data}})
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, s := range got {
			gotItems, wantItems := mustItems(t, s), mustItems(t, want[i])
			if !reflect.DeepEqual(gotItems, wantItems) || len(gotItems) == 0 || !reflect.DeepEqual(s.Classes(), want[i].Classes()) || s.Layout() != want[i].Layout() {
				t.Errorf("%s: %d items from standard input, %d from the file; %s, %s", name, len(gotItems), len(wantItems), s.Layout(), want[i].Layout())
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
		"standard input: is empty: only tars": nil, "standard input: neither a tar nor a tar.gz": []byte("words"), "a zip, whose list": zipOf(t, tree()), "a parquet file": []byte("PAR1....PAR1"),
		"standard input: does not end in the two blocks": sourcetest.TarOfTree(t, tree(), "", 3)[:6*1024],
		"ends in the middle of an entry":                 sourcetest.TarOfTars(t, tree(), 3)[:9000],
	} {
		splits, err := OpenAll([]string{StandardInput}, Options{Stdin: bytes.NewReader(data)})
		if err == nil {
			_, err = items(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := OpenAll([]string{StandardInput}, Options{}); err == nil {
		t.Error("no standard input at all passes")
	}
	t.Chdir(dir)
	sourcetest.Write(t, filepath.Join(dir, "classes.txt"), []byte("a\nb\nc\nd\ne\n"))
	splits, err := OpenAll([]string{StandardInput}, Options{Stdin: bytes.NewReader(webDatasetTar(t, wds...))})
	if err != nil {
		t.Fatal(err)
	}
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

// TestWinter21 packs as winter21_whole.tar.gz is: gzip around a folder of class tars, of which --classes selects.
func TestWinter21(t *testing.T) {
	var files []sourcetest.File
	files = append(files, sourcetest.File{Name: "winter21_whole/"})
	for class, data := range sourcetest.ClassTars(t, tree(), 1) {
		files = append(files, sourcetest.File{Name: "winter21_whole/" + class + ".tar", Data: data})
	}
	dir := t.TempDir()
	whole := sourcetest.Write(t, filepath.Join(dir, "winter21_whole.tar.gz"), sourcetest.Gzip(t, sourcetest.Tar(t, files...)))
	s := open(t, whole, Options{})
	if got := mustItems(t, s); !reflect.DeepEqual(got, wantTree()) || s.Output != filepath.Join(dir, "winter21_whole-shards") {
		t.Errorf("%d items to %s", len(got), s.Output)
	}
	chosen := sourcetest.Write(t, filepath.Join(dir, "chosen"), []byte("n10\nn01\n"))
	s = open(t, whole, Options{Classes: chosen})
	if got := mustItems(t, s); len(got) != 4 || got["n10/n10_3.JPEG"].label != 0 || got["n01/n01_7.JPEG"].label != 1 {
		t.Errorf("the chosen: %v", got)
	}
}

func TestKnownCounts(t *testing.T) {
	wnids := func(n int) []string {
		classes := make([]string, n)
		for i := range classes {
			classes[i] = fmt.Sprintf("n%08d", i)
		}
		return classes
	}
	for _, tc := range []struct {
		classes int
		split   string
		want    string
	}{
		{21841, "train", "ImageNet-21k of fall 2011 has 14,197,122 images, and here are 7: 14,197,115 are missing"},
		{19167, "train", "ImageNet-21k of winter 2021 has 13,153,500 images, and here are 7"},
		{11221, "train", "ImageNet-21K-P of fall 2011 has 11,797,632 images"},
		{11221, "val", "ImageNet-21K-P of fall 2011 has 561,052 images"},
		{10450, "val", "ImageNet-21K-P of winter 2021 has 522,500 images"},
		{10451, "val", ""}, {21841, "val", ""},
	} {
		s := &Split{Name: tc.split, kind: &classTars}
		s.noteKnown(7, wnids(tc.classes))
		if notes := strings.Join(s.Notes(), "\n"); !strings.HasPrefix(notes, tc.want) || tc.want == "" && notes != "" {
			t.Errorf("%d classes, %s: %q, want %q", tc.classes, tc.split, notes, tc.want)
		}
	}
	s := &Split{Name: "train", kind: &classTars}
	if s.noteKnown(7, append(wnids(21840), "cat")); len(s.Notes()) > 0 {
		t.Errorf("classes that are no wnids: %q", s.Notes())
	}
}
