package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// webDatasetTar makes a tar of members: a name and its content, then the next.
func webDatasetTar(t testing.TB, members ...string) []byte {
	t.Helper()
	var files []sourcetest.File
	for pair := range slices.Chunk(members, 2) {
		files = append(files, sourcetest.File{Name: pair[0], Data: []byte(pair[1])})
	}
	return sourcetest.Tar(t, files...)
}

func TestWebDatasetSamples(t *testing.T) {
	dir := t.TempDir()
	sourcetest.Write(t, filepath.Join(dir, "wds/imagenet-train-000000.tar"), webDatasetTar(t,
		"__meta__/a.cls", "7", "README.md", "text",
		"n01/a.cls", "3", "n01/a.jpg", "A", "n01/a.json", "{}", // as ShardWriter sorts them
		"./b.v1/b.JPEG", "B", "./b.v1/b.cls", " 0\n", // the image first, a dot in the folder
		"c.cls", "12", "c.seg.png", "mask", "c.PNG", "C",
		"d.cls", "1", "d.txt", "no image",
		"e.webp", "no label"))
	sourcetest.Write(t, filepath.Join(dir, "wds/imagenet-train-000001.tar.gz"), sourcetest.Gzip(t, webDatasetTar(t, "f.jpeg", "F", "f.cls", "3")))
	sourcetest.Write(t, filepath.Join(dir, "wds/imagenet-train-000002.tar"), webDatasetTar(t))
	sourcetest.Write(t, filepath.Join(dir, "wds/_info.json"), []byte("{}"))
	s := open(t, filepath.Join(dir, "wds"), dataset.Options{})
	described(t, s, "3 tars of WebDataset", "train", filepath.Join(dir, "wds-shards"))
	testenv.Equal(t, s.Streamed(), true, "streamed")
	want := map[string]item{"n01/a": {label: 3, data: "A"}, "b.v1/b": {label: 0, data: "B"}, "c": {label: 12, data: "C"}, "f": {label: 3, data: "F"},
		"c.seg": {label: -1, reason: "no label: there is no c.seg.cls beside c.seg.png in imagenet-train-000000.tar" + "; if this is a mask or the like, name the images' extension by --image-key"},
		"d":     {label: 1, reason: "no image beside d.cls in imagenet-train-000000.tar"},
		"e":     {label: -1, reason: "no label: there is no e.cls beside e.webp in imagenet-train-000000.tar"}}
	holds(t, s, want)
	c := s.Classes()
	testenv.Check(t, len(c) == 13 && c[0] == "00" && c[12] == "12", "classes %q", c)
	testenv.Contains(t, notes(s), "_info.json", "000002.tar has no files", "called by their numbers, 00 to 12",
		"4 files in the tars are neither image nor label, and left out (json, md, others, txt)")
}

// TestWebDatasetDots reads keys and extensions with dots in them, from files and from standard input.
func TestWebDatasetDots(t *testing.T) {
	for name, tc := range map[string]struct {
		opts    dataset.Options
		members []string
		want    string // the images by their keys, and keys of rejects
	}{
		"some":            {dataset.Options{}, []string{"g0.jpg", "0", "g0.cls", "0", "img_12.5.jpg", "1", "img_12.5.cls", "1", "img_13.5.jpg", "2", "img_13.5.cls", "1"}, "g0=0 img_12.5=1 img_13.5=1"},
		"all":             {dataset.Options{}, []string{"a.5.jpg", "0", "a.5.cls", "1.0"}, "a.5=1"},
		"folders":         {dataset.Options{}, []string{"some/path/22.0/1.1.cls", "1", "some/path/22.0/1.1.jpg", "3"}, "some/path/22.0/1.1=1"},
		"one stem":        {dataset.Options{}, []string{"v.1.jpg", "0", "v.1.cls", "0", "v.2.jpg", "0", "v.2.cls", "3", "v.jpg", "0", "v.cls", "2"}, "v.1=0 v.2=3 v=2"},
		"JSON":            {dataset.Options{Label: "json.id"}, []string{"v.1.jpg", "0", "v.1.json", `{"id": 2.0}`, "w.jpg", "0", "w.json", `{"id": 1}`, "w.meta.json", "{}"}, "v.1=2 w=1"},
		"between":         {dataset.Options{}, []string{"x.cls", "1", "x.depth.png", "0", "x.jpg", "0"}, "x.depth:no label x=1"},
		"a lost label":    {dataset.Options{}, []string{"x.jpg", "0", "x.cls", "1", "y.5.jpg", "0"}, "x=1 y.5:no label"},
		"a lost image":    {dataset.Options{}, []string{"x.jpg", "0", "x.cls", "1", "y.5.cls", "0"}, "x=1 y.5:no image"},
		"--image-key":     {dataset.Options{ImageKey: "jpg"}, []string{"x.depth.png", "0", "x.cls", "1", "x.jpg", "0"}, "x=1"},
		"--image-key a.b": {dataset.Options{ImageKey: "Image.JPG"}, []string{"0.cls", "1", "0.image.jpg", "0", "0.mask.jpg", "0"}, "0=1"},
		"--field":         {dataset.Options{Fields: asked(t, "mask=mask.png:bytes")}, []string{"x.cls", "1", "x.jpg", "0", "x.mask.png", "0"}, "x=1"},
		"--no-labels":     {dataset.Options{NoLabels: true}, []string{"a.5.jpg", "0", "a.5.txt", "one", "b.jpg", "0"}, "a.5=-1 b=-1"},
		"jfif":            {dataset.Options{}, []string{"x.jfif", "0", "x.cls", "1"}, "x=1"},
	} {
		data := webDatasetTar(t, tc.members...)
		opts := tc.opts
		opts.Stdin = bytes.NewReader(data)
		for path, opts := range map[string]dataset.Options{sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), data): tc.opts, StandardInput: opts} {
			var got []string
			for key, it := range mustItems(t, open(t, path, opts)) {
				if it.reason != "" {
					key += ":" + it.reason[:min(8, len(it.reason))]
				} else {
					key += fmt.Sprintf("=%d", it.label)
				}
				got = append(got, key)
			}
			slices.Sort(got)
			testenv.Equal(t, strings.Join(got, " "), tc.want, "%s", name)
		}
	}
	tar := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), webDatasetTar(t, "0.image.jpg", "0", "0.cls", "0"))
	refuses(t, tar, dataset.Options{}, `x.tar: entry "0.image.jpg" near byte`,
		"without a label .cls under its name; to take the labels from a key")
	folder := sourcetest.WriteTree(t, t.TempDir(), paths("a/1.jpg", "b/2.jpg"))
	testenv.Fails(Open(folder, dataset.Options{ImageKey: "jpg"}))(t, "--image-key is for WebDataset's tars")
}

func TestWebDatasetSplits(t *testing.T) {
	sample := func(key string, label int) []byte {
		return webDatasetTar(t, key+".cls", fmt.Sprint(label), key+".jpg", jpegStart+key)
	}
	for _, tc := range []struct{ files, want string }{ // the tars, and the splits' names and outputs
		{"imagenet1k-train-0000.tar imagenet1k-train-0001.tar imagenet1k-validation-00.tar", "train D-train-shards, val D-val-shards"},
		{"imagenet-train-000000.tar imagenet-val-000000.tar imagenet-test-000000.tar",
			"train D-train-shards, val D-val-shards, test D-test-shards"},
		{"train/0.tar validation/0.tar test/0.tar", "train D/train-shards, val D/validation-shards, test D/test-shards"},
		{"x-val-0.tar.gz", "val D-shards"},
		{"0.tar 1.tar", "train D-shards"},
	} {
		root := filepath.Join(t.TempDir(), "wds")
		files := strings.Fields(tc.files)
		for i, p := range files {
			data := sample(fmt.Sprint("k", i), len(files)-i)
			if strings.HasSuffix(p, ".gz") {
				data = sourcetest.Gzip(t, data)
			}
			sourcetest.Write(t, filepath.Join(root, p), data)
		}
		splits := testenv.Must(Open(root, dataset.Options{}))(t)
		var got []string
		for i, s := range splits {
			got = append(got, s.Name+" "+strings.Replace(s.Output, root, "D", 1))
			if i > 0 {
				s.ExpectClasses(splits[0].Classes())
			}
			mustItems(t, s)
			testenv.Equal(t, fmt.Sprint(s.Classes()), fmt.Sprint(splits[0].Classes()), "%s: %s: classes", tc.files, s.Name)
		}
		testenv.Equal(t, strings.Join(got, ", "), tc.want, "%s", tc.files)
	}
	one := sourcetest.Write(t, filepath.Join(t.TempDir(), "imagenet1k-validation-00.tar"), sample("a", 0))
	s := open(t, one, dataset.Options{})
	described(t, s, "1 tar of WebDataset", "val", strings.TrimSuffix(one, ".tar")+"-shards")
	labelled(t, s, "a=0", "0")
	more := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "val.tar"), sample("a", 10)), dataset.Options{})
	more.ExpectClasses(s.Classes())
	testenv.Fails(items(more))(t, "has the label 10, and the other split has only 1 classes")
}

func TestWebDatasetClassNames(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "wds")
	sourcetest.Write(t, filepath.Join(root, "train/0.tar"), webDatasetTar(t, "a.cls", "2", "a.jpg", "A"))
	named := sourcetest.Write(t, filepath.Join(dir, "names"), []byte("\ufeffcat\r\ntench, Tinca tinca\nowl\nnewt\n\n"))
	classes := func(opts dataset.Options) ([]string, error) {
		splits, err := Open(root, opts)
		if err != nil {
			return nil, err
		}
		_, err = items(splits[0])
		return splits[0].Classes(), err
	}
	for _, tc := range []struct {
		file, content string
		opts          dataset.Options
		want          string
	}{
		{"", "", dataset.Options{}, "0,1,2"},
		{"", "", dataset.Options{Classes: named}, "cat,tench, Tinca tinca,owl,newt"},
		{"", "", dataset.Options{Classes: "ilsvrc2012"}, strings.Join(wordnet.Wnids(), ",")},
		{"classnames.txt", "a\nb\nc", dataset.Options{}, "a,b,c"},
		{"train/classes.txt", "x\ny\nz\n", dataset.Options{}, "x,y,z"},
	} {
		if tc.file != "" {
			sourcetest.Write(t, filepath.Join(root, tc.file), []byte(tc.content))
		}
		testenv.Equal(t, strings.Join(testenv.Must(classes(tc.opts))(t), ","), tc.want, "%+v: classes", tc.opts)
	}
	for content, want := range map[string]string{"a\nb\n": "names 2 classes, but", "a\n\nb\nc": "line 2 is empty", "a\nb\na\n": "lines 1 and 3", "": "is empty",
		"a\nb\nc\xff\n": "line 3 cannot be a class"} {
		file := sourcetest.Write(t, filepath.Join(dir, "bad"), []byte(content))
		_, err := classes(dataset.Options{Classes: file})
		testenv.Equal(t, testenv.As[*transport.FormatError](t, err, want).Path, file, "%q: path of the error", content)
	}
	many := webDatasetTar(t, "a.cls", "999", "a.jpg", "A")
	s := open(t, sourcetest.Write(t, filepath.Join(dir, "many.tar"), many), dataset.Options{})
	mustItems(t, s)
	testenv.Equal(t, s.Classes()[999], "999", "the last of 1,000 numbers")
	testenv.Contains(t, notes(s), "--classes ilsvrc2012")
	testenv.Fails(classes(dataset.Options{Classes: filepath.Join(dir, "nowhere")}))(t, "no such file")
	testenv.Fails(Open(sourcetest.WriteTree(t, t.TempDir(), paths("ILSVRC2012_val_00000001.JPEG")), dataset.Options{Classes: named}))(t, "--classes is for")
}

func TestWebDatasetThatCannotBeRead(t *testing.T) {
	good := []string{"a.cls", "1", "a.jpg", "A"}
	with := func(more ...string) [][]byte {
		return [][]byte{webDatasetTar(t, append(slices.Clone(good), more...)...)}
	}
	first := webDatasetTar(t, good...)
	for _, tc := range map[string]struct {
		tars [][]byte
		want []string
	}{
		"word":        {with("b.jpg", "B", "b.cls", "dog"), []string{"0.tar", `"b.cls"`, "near byte", `"dog" is not a whole number`}},
		"fraction":    {with("b.cls", "1.5", "b.jpg", "B"), []string{"not a whole number"}},
		"empty label": {with("b.cls", "", "b.jpg", "B"), []string{"not a whole number"}},
		"negative":    {with("b.cls", "-1", "b.jpg", "B"), []string{`"b.cls"`, "-1 is negative"}},
		"large":       {with("b.cls", "1048576", "b.jpg", "B"), []string{"is not from 0 to 1048575"}},
		"huge":        {with("b.cls", "99999999999999999999", "b.jpg", "B"), []string{"is not from 0 to 1048575"}},
		"long label":  {with("b.cls", strings.Repeat("0", 65), "b.jpg", "B"), []string{"at most 64 bytes"}},
		"two labels":  {with("b.cls", "1", "b.CLS", "2"), []string{`"b.CLS"`, "second label"}},
		"two images":  {with("b.cls", "1", "b.jpg", "B", "b.png", "B"), []string{`"b.png"`, "second image", "after b.jpg"}},
		"repeated":    {[][]byte{first, first}, []string{"1.tar", `entry "a" near byte`, `"a" occurs twice`}},
		"apart":       {with("b.jpg", "B", "c.jpg", "C", "b.cls", "1", "c.cls", "1"), []string{`"b" occurs twice`, "one after the other (tar --sort=name)"}},
		"other tar":   {[][]byte{first, webDatasetTar(t, "x.JPEG", "X", "y.JPEG", "Y")}, []string{"1.tar", "no sample of WebDataset"}},
		"cut":         {[][]byte{first, first[:1200]}, []string{"1.tar", "incomplete"}},
		"up":          {with("../b.jpg", "B"), []string{"climbs out"}},
	} {
		root := filepath.Join(t.TempDir(), "wds")
		for i, data := range tc.tars {
			sourcetest.Write(t, filepath.Join(root, fmt.Sprint(i, ".tar")), data)
		}
		testenv.FailsAs[*transport.FormatError](items(open(t, root, dataset.Options{})))(t, tc.want...)
	}
	for want, tc := range map[string]struct {
		files string
		opts  dataset.Options
	}{
		"this one is not":                    {"x-train-0.tar extra.tar", dataset.Options{}},
		`has no split "all", but train, val`: {"x-train-0.tar x-val-0.tar", dataset.Options{Split: "all"}},
		"named for the split val":            {"train/x-train-0.tar train/x-val-0.tar val/x-val-1.tar", dataset.Options{}},
	} {
		root := t.TempDir()
		for _, p := range strings.Fields(tc.files) {
			sourcetest.Write(t, filepath.Join(root, p), first)
		}
		testenv.Fails(Open(root, tc.opts))(t, want)
	}
}

func TestWebDatasetOddMembers(t *testing.T) {
	data := sourcetest.Tar(t, sourcetest.File{Name: "a.cls", Data: []byte("0")}, sourcetest.File{Name: "a.jpg", Data: []byte("A")},
		sourcetest.File{Name: "b.cls", Data: []byte("1")}, sourcetest.File{Name: "b.jpg", Type: '2', Link: "/etc/passwd"},
		sourcetest.File{Name: "folder/"}, sourcetest.File{Name: "._c.jpg", Data: []byte("junk")},
		sourcetest.File{Name: "d\xff.cls", Data: []byte("1")}, sourcetest.File{Name: "d\xff.jpg", Data: []byte("D")})
	data = data[:len(data)-2*512]
	s := open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "train.tar"), data), dataset.Options{AllowTruncated: true})
	holds(t, s, map[string]item{"a": {data: "A"}, "b": {label: 1, reason: transport.ReasonLink},
		"d\xff": {label: 1, reason: "its name is not UTF-8"}})
	testenv.Contains(t, notes(s), "taken though")
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := s.Walk(ctx, func(transport.Item) error { n++; cancel(); return nil })
	testenv.Check(t, errors.Is(err, context.Canceled) && n == 1, "%v after %d items", err, n)
}

// Whatever a member of text or JSON holds, it is a value of the field or refused, without more memory than it is long.
func FuzzFieldValues(f *testing.F) {
	f.Add([]byte(`{"score": [1, 2.5], "a": {"b": true}}`))
	f.Add([]byte("3 4"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, flag := range []string{"x=json.score:float32[2]", "x=json.a.b:int64", "x=json", "x=txt", "x=txt:int64[2]", "x=txt:multihot[9]"} {
			fields := []dataset.Field{testenv.Must(dataset.ParseField(flag))(t)}
			testenv.OK(t, (&wdsLayout{TarFiles: transport.TarFiles{Paths: []string{"x.tar"}}}).BindFields(fields))
			values, err := appendMember(&fields[0], nil, content)
			if err != nil {
				continue
			}
			one := fields[0].Field
			if !one.Numeric() {
				one.BytesMax = shard.RecordBytesMax
			}
			_, err = (shard.Fields{one}).Split(values, nil)
			testenv.Require(t, err == nil && len(values) <= len(content)+36+one.Width(), "%s of %q: %q, %v", flag, content, values, err)
		}
	})
}
