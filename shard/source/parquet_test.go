package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// writtenRow is a row that pyarrow read.
type writtenRow struct {
	Data  []byte // as JSON has it, in base64
	Path  *string
	Label *int32
}

// TestParquetOfPyarrow reads files of pyarrow's writer with several options, and compares each row with what pyarrow's reader gives.
func TestParquetOfPyarrow(t *testing.T) {
	dir := t.TempDir()
	var said struct {
		Rows    map[string][]writtenRow
		Version string
	}
	fromPython(t, "pyarrow", "parquet.py", &said, dir)
	t.Logf("files by pyarrow %s", said.Version)
	want := func(files ...string) map[string]item {
		m := make(map[string]item)
		for _, file := range files {
			stem := strings.TrimSuffix(path.Base(file), ".parquet")
			for i, row := range said.Rows[file] {
				key, it := fmt.Sprintf("%s/%05d", stem, i), item{label: -1, data: string(row.Data)}
				if row.Path != nil {
					key += "-" + path.Base(*row.Path)
				}
				if row.Label != nil {
					it.label = *row.Label
				}
				if row.Data == nil {
					it.reason = "the row has no bytes of an image (a path is not followed)"
				}
				m[key] = it
			}
		}
		return m
	}
	for _, name := range []string{"snappy", "plain", "zstd2", "dictionary", "binary"} {
		splits := openSplits(t, 3, dataset.Options{Test: true}, filepath.Join(dir, name))
		train, val, test := name+"/data/train-0000%d-of-00002.parquet", name+"/data/validation-00000-of-00001.parquet", name+"/data/test-00000-of-00001.parquet"
		for i, want := range []map[string]item{want(fmt.Sprintf(train, 0), fmt.Sprintf(train, 1)), want(val), want(test)} {
			s := splits[i]
			holds(t, s, want)
			testenv.Equal(t, strings.Join(s.Classes(), " "), "zebra ant bee", "%s, %s: classes", name, s.Name)
			testenv.Equal(t, s.Output, filepath.Join(dir, name)+"-"+s.Name+"-shards", "%s, %s: output", name, s.Name)
		}
		testenv.Contains(t, notes(openSplits(t, 2, dataset.Options{}, filepath.Join(dir, name))[0]), "add --test")
		testenv.OK(t, os.Remove(filepath.Join(dir, fmt.Sprintf(train, 1))))
		testenv.Fails(Open(filepath.Join(dir, name), dataset.Options{}))(t, "one of 2 files by its name, and 1 are here")
	}
	holds(t, open(t, filepath.Join(dir, "odd"), dataset.Options{}), want("odd/train.parquet"))
}

// TestParquetLabels reads labels that are not whole numbers in the file.
func TestParquetLabels(t *testing.T) {
	dir := t.TempDir()
	fromPython(t, "pyarrow", "parquet.py", nil, dir)
	two := sourcetest.Write(t, filepath.Join(dir, "two"), []byte("dog\nant\n"))
	for _, tc := range []struct {
		kind    string
		opts    dataset.Options
		want    string // the labels of the rows
		classes string
	}{
		{"string", dataset.Options{}, "2 1 -1 2 0", "ant cat dog"},
		{"dictionary", dataset.Options{}, "2 1 -1 2 0", "ant cat dog"},
		{"string", dataset.Options{Classes: two}, "0 -1 0 1", "dog ant"},
		{"string", dataset.Options{NoLabels: true}, "-1 -1 -1 -1 -1", ""},
		{"digits", dataset.Options{}, "2 0 -1 2 1", "0 1 2"},
		{"bool", dataset.Options{}, "1 0 -1 1 0", "0 1"},
		{"float", dataset.Options{}, "2 0 -1 2 1", "0 1 2"},
		{"mixed", dataset.Options{ForceClasses: true}, "2 0 -1 2 1", "7 ant dog"},
		{"none", dataset.Options{NoLabels: true}, "-1 -1 -1 -1 -1", ""},
	} {
		s := open(t, filepath.Join(dir, "labels", tc.kind+".parquet"), tc.opts)
		got := mustItems(t, s)
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(got)) {
			labels = append(labels, fmt.Sprint(got[key].label))
		}
		testenv.Equal(t, strings.Join(labels, " "), tc.want, "%s, %+v: labels", tc.kind, tc.opts)
		testenv.Equal(t, strings.Join(s.Classes(), " "), tc.classes, "%s, %+v: classes", tc.kind, tc.opts)
	}
	for kind, want := range map[string]string{
		"fraction": `"row 1": the label "0.5" is not a whole number`,
		"mixed":    `"row 0": the label "dog" is a name, and others are numbers (7)`,
		"none":     "to take the images without labels, add --no-labels",
	} {
		refuses(t, filepath.Join(dir, "labels", kind+".parquet"), dataset.Options{}, want)
	}
}

// TestParquetFilesThatDiffer has files of one split that call their labels by other names, or that have other labels.
func TestParquetFilesThatDiffer(t *testing.T) {
	features := func(names string) string {
		return `{"info": {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": [` + names + `]}}}}`
	}
	first, second, none := goParquet(t, features(`"cat", "dog"`)), goParquet(t, features(`"dog", "cat"`)), goParquet(t, "{}")
	names := sourcetest.Write(t, filepath.Join(t.TempDir(), "names"), []byte("x\ny\n"))
	text := parquetSort(t, func(int) goTextRow { return goTextRow{[]byte(jpegStart), "cat"} })
	for _, tc := range []struct {
		second []byte // beside the first
		opts   dataset.Options
		want   string // "": no error
	}{
		{first, dataset.Options{}, ""},
		{second, dataset.Options{}, "train-00001-of-00002.parquet: its schema names the classes dog, cat, " +
			"and that of DIR/train-00000-of-00002.parquet others"},
		{second, dataset.Options{Classes: names}, "its schema names the classes dog, cat"},
		{goParquet(t, features(`"cat", "dog", "owl"`)), dataset.Options{}, "its schema names the classes cat, dog, owl"},
		{none, dataset.Options{}, "its schema names the classes (none)"},
		{text, dataset.Options{}, "are not both names or both numbers"},
		{second, dataset.Options{NoLabels: true}, ""},
	} {
		dir := lay(t, map[string][]byte{"train-00000-of-00002.parquet": first, "train-00001-of-00002.parquet": tc.second})
		testenv.Says(t, tc.opts, refusal(dir, tc.opts), strings.ReplaceAll(tc.want, "DIR", dir))
	}
	// Of two splits, the names tell what the labels mean.
	dir := lay(t, map[string][]byte{"train-00000-of-00001.parquet": first, "validation-00000-of-00001.parquet": second})
	val := openSplits(t, 2, dataset.Options{}, dir)[1]
	val.ExpectClasses([]string{"cat", "dog"})
	testenv.Equal(t, mustItems(t, val)["validation-00000-of-00001/00000-0.jpg"].label, 1, "label of a dog")
	// A class of the schema that no row has need not be among the other split's.
	s := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "val.parquet"), goParquet(t, features(`"cat", "dog", "owl"`))), dataset.Options{})
	s.ExpectClasses([]string{"dog", "cat"})
	got := mustItems(t, s)
	testenv.Equal(t, got["val/00000-0.jpg"].label, 1, "label of a cat")
	testenv.Equal(t, got["val/00001-1.jpg"].label, 0, "label of a dog")
	s.ExpectClasses([]string{"cat", "owl"})
	testenv.Fails(items(s))(t, "1 of its 2 classes are not among the 2 of the other split (dog)")
}

// goTextRow is a row with a label in text.
type goTextRow struct {
	Image []byte `parquet:"image"`
	Label string `parquet:"label"`
}

// TestParquetColumnsThatAreNone has paths instead of images, and decimals for labels.
func TestParquetColumnsThatAreNone(t *testing.T) {
	type listed struct {
		Image string `parquet:"image"`
		Label int64  `parquet:"label"`
	}
	type priced struct {
		Image []byte `parquet:"image"`
		Label int64  `parquet:"label,decimal(2:10)"`
	}
	for want, data := range map[string][]byte{
		`the column "image" holds no image files, as bytes or as a struct with bytes in it: if these are paths, write a CSV`: parquetSort(t, func(int) listed { return listed{"a.jpg", 1} }),
		`has no column "label" with a number or a text for label in each row`:                                                parquetSort(t, func(int) priced { return priced{[]byte(jpegStart), 100} }),
	} {
		refuses(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.parquet"), data), dataset.Options{}, want)
	}
}

type goImage struct {
	Bytes []byte `parquet:"bytes"`
	Path  string `parquet:"path"`
}

type goRow struct {
	Image  goImage `parquet:"image"`
	Label  int64   `parquet:"label"`
	Coarse int32   `parquet:"coarse"`
	Text   string  `parquet:"text"`
}

// goParquet is a file by parquet-go's writer, for where there is no Python.
func goParquet(t testing.TB, features string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[goRow](&buf, parquet.KeyValueMetadata("huggingface", features), parquet.Compression(&parquet.Snappy))
	for i := range 20 {
		testenv.Must(w.Write([]goRow{{Image: goImage{[]byte(jpegStart + strings.Repeat("x", i)), fmt.Sprintf("%d.jpg", i)}, Label: int64(i % 2), Coarse: int32(i % 3)}}))(t)
		if i%7 == 6 {
			testenv.OK(t, w.Flush())
		}
	}
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

func TestParquetColumns(t *testing.T) {
	dir := t.TempDir()
	one := `{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}, "image": {"_type": "Image"}, "more": [{"_type": "Image"}]}}}`
	file := sourcetest.Write(t, filepath.Join(dir, "train.parquet"), goParquet(t, one))
	s := open(t, file, dataset.Options{})
	got := mustItems(t, s)
	testenv.Equal(t, got["train/00003-3.jpg"], item{label: 1, data: jpegStart + "xxx"}, "row 3")
	testenv.Equal(t, fmt.Sprint(len(got), s.Classes()), "20 [cat dog]", "rows and classes")
	s = open(t, file, dataset.Options{Label: "coarse"})
	testenv.Equal(t, mustItems(t, s)["train/00005-5.jpg"].label, 2, "label of another column")
	testenv.Equal(t, len(s.Classes()), 3, "classes of another column")
	s = open(t, file, dataset.Options{Classes: sourcetest.Write(t, filepath.Join(dir, "names"), []byte("x\ny\n"))})
	testenv.Equal(t, fmt.Sprint(len(mustItems(t, s)), s.Classes()), "20 [x y]", "rows and named classes")
	two := strings.Replace(one, `"more": [`, `"coarse": {"_type": "ClassLabel", "names": ["a"]}, "more": [`, 1)
	two = strings.Replace(two, `"label":`, `"text": {"_type": "ClassLabel"}, "absent":`, 1)
	for want, opts := range map[string]dataset.Options{"to take another column for the labels, add --label": {}, "has no column \"y\"": {Label: "y"}, "has no column \"image\" with a number": {Label: "image"}} {
		testenv.Fails(Open(sourcetest.Write(t, filepath.Join(dir, "bad.parquet"), goParquet(t, two)), opts))(t, want)
	}
	whole := goParquet(t, one)
	flipped := bytes.Clone(whole)
	copy(flipped[40:], "damage damage damage")
	for want, data := range map[string][]byte{
		"download is incomplete": whole[:len(whole)-20], "does not end as parquet files do": []byte("PAR1"), "it is damaged": append(whole[:len(whole)-8:len(whole)-8], "\xff\xff\xff\x7fPAR1"...),
		"cannot be read as parquet": flipped,
	} {
		refuses(t, sourcetest.Write(t, filepath.Join(dir, "bad.parquet"), data), dataset.Options{}, want, "bad.parquet")
	}
}

// Rows of other encodings than the writer's own.
type (
	goDelta struct {
		Image struct {
			Bytes []byte `parquet:"bytes,delta"`
			Path  string `parquet:"path,delta"`
		} `parquet:"image"`
		Label int64 `parquet:"label,delta"`
	}
	goDictionary struct {
		Image struct {
			Bytes []byte `parquet:"bytes,optional"`
			Path  string `parquet:"path,dict,optional"`
		} `parquet:"image,optional"`
		Label int32 `parquet:"label,dict"`
	}
)

// parquetSorts are small files of each sort of page that parquet-go's writer makes.
func parquetSorts(f testing.TB) (files [][]byte) {
	v1, v2 := parquet.DataPageVersion(1), parquet.DataPageVersion(2)
	for _, options := range [][]parquet.WriterOption{
		{parquet.Compression(&parquet.Snappy)}, {parquet.Compression(&parquet.Zstd), v2}, {parquet.Compression(&parquet.Gzip), v1},
		{parquet.Compression(&parquet.Uncompressed), v1, parquet.PageBufferSize(64)}, {parquet.Compression(&parquet.Brotli), v2},
	} {
		files = append(files, parquetSort(f, func(i int) goRow {
			return goRow{Image: goImage{[]byte(jpegStart + strings.Repeat("x", i)), "p.jpg"}, Label: int64(i % 2)}
		}, options...))
	}
	for _, options := range [][]parquet.WriterOption{{v1}, {v2, parquet.Compression(&parquet.Zstd)}} {
		files = append(files, parquetSort(f, func(i int) (r goDelta) {
			r.Image.Bytes, r.Image.Path, r.Label = []byte(jpegStart+strings.Repeat("x", i)), "p.jpg", int64(i%2)
			return r
		}, options...), parquetSort(f, func(i int) (r goDictionary) {
			r.Image.Bytes, r.Image.Path, r.Label = []byte(jpegStart+strings.Repeat("x", i)), "p.jpg", int32(i%2)
			return r
		}, options...))
	}
	return files
}

// parquetSort is a file of six rows.
func parquetSort[Row any](t testing.TB, row func(i int) Row, options ...parquet.WriterOption) []byte {
	const features = `{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}}`
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[Row](&buf, append(options, parquet.KeyValueMetadata("huggingface", features))...)
	for i := range 6 {
		testenv.Must(w.Write([]Row{row(i)}))(t)
	}
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

// TestParquetSorts reads each of them.
func TestParquetSorts(t *testing.T) {
	for i, data := range parquetSorts(t) {
		got := mustItems(t, open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.parquet"), data), dataset.Options{}))
		for row := range 6 {
			want := item{label: int32(row % 2), data: jpegStart + strings.Repeat("x", row)}
			testenv.Equal(t, got[fmt.Sprintf("x/%05d-p.jpg", row)], want, "sort %d: row %d", i, row)
		}
	}
}

// fuzzAllocatedMax bounds what reading a small file may allocate, whatever it says of itself.
const fuzzAllocatedMax = 256 << 20

// allocated returns how many bytes were allocated so far; runtime.ReadMemStats stops the world for more.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// parquetAllocatedMax bounds what reading a small parquet file may allocate: an unpacked page, and what Snappy claims of itself.
const parquetAllocatedMax = 2 << 30

// Whatever the bytes of a file, reading it gives labels of its classes or an error that names it, in memory that does not depend on the sizes that
// its metadata claim. Inputs are a good file and what is changed in it: nearly all others end at the first byte that is read.
func FuzzParquet(f *testing.F) {
	sorts := parquetSorts(f)
	for i, data := range sorts {
		f.Add(uint8(i), uint32(0), []byte{}, uint32(0), []byte{})
		for at := 4; at < len(data)-8; at += 48 {
			f.Add(uint8(i), uint32(at), []byte("\xff\xff\xff\xff\x0f"), uint32(at/2), []byte{0})
		}
	}
	file := filepath.Join(f.TempDir(), "x.parquet")
	f.Fuzz(func(t *testing.T, sort uint8, at uint32, change []byte, at2 uint32, change2 []byte) {
		data := bytes.Clone(sorts[int(sort)%len(sorts)])
		copy(data[int(at)%len(data):], change)
		copy(data[int(at2)%len(data):], change2)
		sourcetest.Write(t, file, data)
		before := allocated()
		splits, err := Open(file, dataset.Options{})
		var got map[string]item
		if err == nil {
			got, err = items(splits[0])
		}
		after := allocated()
		testenv.Check(t, err == nil || strings.Contains(err.Error(), file), "an error without the file's name: %v", err)
		for key, it := range got {
			testenv.Check(t, it.label >= -1 && int(it.label) < len(splits[0].Classes()),
				"%s has the label %d of %d classes", key, it.label, len(splits[0].Classes()))
		}
		testenv.Between(t, after-before, 0, parquetAllocatedMax, "bytes that are allocated for a file of %d", len(data))
	})
}

// TestParquetScalar keeps the sign of numbers of either size.
func TestParquetScalar(t *testing.T) {
	for want, v := range map[any]parquet.Value{
		int64(-16): parquet.Int32Value(-16), int64(-1 << 40): parquet.Int64Value(-1 << 40), true: parquet.BooleanValue(true),
		float32(-.5): parquet.FloatValue(-.5), -.25: parquet.DoubleValue(-.25), "x": parquet.ByteArrayValue([]byte("x")), nil: parquet.NullValue(),
	} {
		testenv.Equal(t, parquetScalar(v), want, "%v (%[1]T)", v)
	}
}

// TestParquetMetadata goes over structs of Thrift: the header of a page, and what claims more than there is.
func TestParquetMetadata(t *testing.T) {
	good := []byte{0x15, 0, 0x15, 20, 0x15, 10, 0x2c, 0x15, 6, 0, 0} // type 0, 10 bytes unpacked, 5 packed, a data page of 3 values
	testenv.Equal(t, testenv.Must(checkThrift(append(good, 1, 2, 3)))(t), len(good), "bytes of a header before others")
	for at := range good {
		testenv.Fails(checkThrift(good[:at]))(t, nil, "%d of %d bytes of a header pass", at, len(good))
	}
	for _, bad := range [][]byte{
		{0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0},       // a string of 4 GB
		{0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f, 1, 2, 0}, // a list of so many numbers
		{0x1b, 0xff, 0xff, 0x7f, 0x55, 1, 0},          // a map
		bytes.Repeat([]byte{0x1c}, 100),               // structs in structs
		{0x1d, 0},                                     // a type that does not exist
	} {
		testenv.Fails(checkThrift(bad))(t, nil, "% x passes", bad)
	}
}

// TestParquetClaims reads columns with pages that claim too much.
func TestParquetClaims(t *testing.T) {
	for _, c := range []struct {
		packed, unpacked, values int
		want                     string
	}{
		{9, 100, 10, ""},
		{9, 9, 1 << 30, "it has 9 bytes, unpacked 9 with 1073741824 values, which is too many"},
		{9, 1 << 30, 1, "it has 9 bytes, unpacked 1073741824 with 1 values, which is too many"},
		{10, 10, 1, "it has 10 bytes"},
		{-1, 10, 1, "it has -1 bytes"},
	} {
		page := []byte("PAR1")
		number := func(head byte, n int) { page = binary.AppendVarint(append(page, head), int64(n)) }
		number(0x15, int(format.DataPage))
		number(0x15, c.unpacked)
		number(0x15, c.packed)
		page = append(page, 0x2c) // the header of a data page, field 5
		number(0x15, c.values)
		number(0x15, int(format.Plain))
		number(0x15, int(format.RLE))
		number(0x15, int(format.RLE))
		page = append(page, make([]byte, 2+9)...) // the ends of both headers, and the page
		err := checkParquetChunk(bytes.NewReader(page), int64(len(page)), &format.ColumnMetaData{DataPageOffset: 4, TotalCompressedSize: int64(len(page) - 4)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "the page at byte 4 says that "+c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
