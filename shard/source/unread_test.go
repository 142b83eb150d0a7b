package source

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// tfRecord is a record of TensorFlow's.
func tfRecord() []byte {
	record := binary.LittleEndian.AppendUint64(nil, 5)
	crc := crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli))
	return append(binary.LittleEndian.AppendUint32(record, crc>>15|crc<<17+0xa282ead8), "hello\x00\x00\x00\x00"...)
}

// TestUnreadFormats names what is not read, and says what to do instead.
func TestUnreadFormats(t *testing.T) {
	arrow := map[string][]byte{"data-00000-of-00001.arrow": []byte("\xff\xff\xff\xff"), "dataset_info.json": []byte("{}"), "state.json": []byte("{}")}
	coco := paths("train2017/1.jpg", "val2017/2.jpg")
	coco["annotations/instances_train2017.json"] = []byte("{}")
	yolo := paths("images/1.jpg", "images/2.jpg")
	yolo["labels/1.txt"] = []byte("0 0.5 0.5 1 1")
	for name, tc := range map[string]struct {
		files map[string][]byte
		path  string // below the folder
		want  []string
	}{
		"TFRecord":      {map[string][]byte{"train-00000-of-00002": tfRecord()}, "train-00000-of-00002", []string{"TFRecord, which is not read", "WebDataset's tars"}},
		"TFRecords":     {map[string][]byte{"train-00000-of-00002": tfRecord()}, "", []string{`entry "train-00000-of-00002": TFRecord`}},
		"save_to_disk":  {arrow, "", []string{"save_to_disk", "to_parquet("}},
		"LMDB":          {map[string][]byte{"data.mdb": []byte("x"), "lock.mdb": []byte("x")}, "", []string{"LMDB"}},
		"MNIST":         {map[string][]byte{"train-images-idx3-ubyte": {0, 0, 8, 3}}, "", []string{"MNIST", "imgfeed.from_torch"}},
		"numpy":         {map[string][]byte{"x.npy": []byte("\x93NUMPY")}, "x.npy", []string{"a file of numpy arrays"}},
		"HDF5":          {map[string][]byte{"x.h5": []byte("\x89HDF\r\n\x1a\n")}, "x.h5", []string{"HDF5"}},
		"RecordIO":      {map[string][]byte{"x": []byte("\x0a\x23\xd7\xce")}, "x", []string{"RecordIO"}},
		"7z":            {map[string][]byte{"x.7z": []byte("7z\xbc\xaf\x27\x1c")}, "x.7z", []string{"7z", "unpack it"}},
		"Zstandard":     {map[string][]byte{"x.tar.zst": []byte("\x28\xb5\x2f\xfd")}, "x.tar.zst", []string{"zstd -dc FILE | imgshard build - -o OUT"}},
		"bzip2":         {map[string][]byte{"x.tar.bz2": []byte("BZh9")}, "x.tar.bz2", []string{"bzip2 -dc FILE | imgshard build - -o OUT"}},
		"COCO":          {coco, "", []string{"laid out as COCO", "/train2017 --no-labels packs the images"}},
		"COCO's JSON":   {coco, "annotations/instances_train2017.json", []string{"JSON, of which lists have an object in each line"}},
		"YOLO":          {yolo, "", []string{"YOLO", "/images --no-labels packs the images"}},
		"a single file": {paths("x.jpg"), "x.jpg", []string{"a single image"}},
		"no list":       {map[string][]byte{"train.txt": []byte("apple_pie/0\napple_pie/1\n")}, "train.txt", []string{`a text file that begins with "apple_pie/0"`}},
		"nothing":       {map[string][]byte{"x": nil}, "x", []string{"the file is empty"}},
	} {
		path := filepath.Join(writeTree(t, t.TempDir(), tc.files), tc.path)
		_, err := Open(path, Options{})
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	// What the advice for COCO and YOLO does.
	for _, path := range []string{filepath.Join(writeTree(t, t.TempDir(), coco), "train2017"), filepath.Join(writeTree(t, t.TempDir(), yolo), "images")} {
		if got := mustItems(t, open(t, path, Options{NoLabels: true})); len(got) == 0 {
			t.Errorf("%s: no images", path)
		}
	}
	// A folder of images is read, whatever lies beside them.
	beside := paths("cat/1.jpg", "dog/2.jpg")
	beside["embeddings.npy"] = []byte("\x93NUMPY")
	if got := mustItems(t, open(t, writeTree(t, t.TempDir(), beside), Options{})); len(got) != 2 {
		t.Errorf("images beside an array: %v", got)
	}
}

// TestTinyImageNet opens the whole of it as it unpacks: the labels of val stand in a list.
func TestTinyImageNet(t *testing.T) {
	files := paths("train/n01443537/images/n01443537_0.JPEG", "train/n01629819/images/n01629819_0.JPEG", "val/images/val_0.JPEG", "val/images/val_1.JPEG", "test/images/test_0.JPEG")
	files["val/val_annotations.txt"] = []byte("val_0.JPEG\tn01629819\t0\t32\t44\t62\nval_1.JPEG\tn01443537\t52\t55\t57\t59\n")
	files["wnids.txt"] = []byte("n01443537\nn01629819\n")
	dir := writeTree(t, filepath.Join(t.TempDir(), "tiny-imagenet-200"), files)
	splits, err := Open(dir, Options{})
	if err != nil || len(splits) != 2 {
		t.Fatal(len(splits), err)
	}
	mustItems(t, splits[0])
	splits[1].ExpectClasses(splits[0].Classes())
	got := mustItems(t, splits[1])
	if len(got) != 2 || got["val_0.JPEG"].label != 1 || got["val_1.JPEG"].label != 0 || splits[1].Name != "val" || splits[1].Output != filepath.Join(dir, "val-shards") {
		t.Errorf("%s at %s: %v", splits[1].Name, splits[1].Output, got)
	}
}

// TestImagefolder opens a folder of images with metadata.csv, which the package datasets calls an imagefolder.
func TestImagefolder(t *testing.T) {
	files := paths("train/1.jpg", "train/2.jpg")
	files["train/metadata.csv"] = []byte("file_name,label,caption\n1.jpg,cat,one\n2.jpg,dog,two\n")
	dir := writeTree(t, t.TempDir(), files)
	s := open(t, filepath.Join(dir, "train"), Options{Fields: asked(t, "caption=caption")})
	if got := mustItems(t, s); len(got) != 2 || got["2.jpg"].label != 1 || s.Output != filepath.Join(dir, "train-shards") {
		t.Errorf("%v at %s", got, s.Output)
	}
	sourcetest.Write(t, filepath.Join(dir, "train/metadata.csv"), []byte("file_name,caption,more\n1.jpg,one,x\n2.jpg,two,y\n"))
	if _, err := Open(filepath.Join(dir, "train"), Options{}); err == nil || !strings.Contains(err.Error(), `has no column "label" of labels (file_name, caption, more): --label COLUMN`) {
		t.Error(err)
	}
	if got := mustItems(t, open(t, filepath.Join(dir, "train"), Options{NoLabels: true, Fields: asked(t, "caption=caption")})); len(got) != 2 || got["1.jpg"].label != -1 {
		t.Errorf("without labels: %v", got)
	}
}
