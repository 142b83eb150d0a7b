package source

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/wordnet"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// TestListsOfPython reads lists that Python's csv and json write, and compares them with what these read.
func TestListsOfPython(t *testing.T) {
	dir := t.TempDir()
	var said map[string][][2]string
	fromPython(t, "csv", "lists.py", &said, dir)
	for name, rows := range said {
		want, classes := make(map[string]item), make(map[string]bool)
		for _, row := range rows {
			classes[row[1]] = true
		}
		sorted := slices.Sorted(maps.Keys(classes))
		for _, row := range rows {
			want[path.Clean(row[0])] = item{label: int32(slices.Index(sorted, row[1])), data: jpegStart + row[0]}
		}
		s := open(t, filepath.Join(dir, name), dataset.Options{})
		holds(t, s, want)
		testenv.Equal(t, fmt.Sprint(len(want), s.Classes()), fmt.Sprint(5, sorted), "%s: rows and classes", name)
	}
}

// listOf writes a list and images a.jpg to d.jpg, of which b lies in a folder.
func listOf(t testing.TB, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, image := range []string{"a.jpg", "sub/b.jpg", "c.jpg", "d.jpg"} {
		sourcetest.Write(t, filepath.Join(dir, image), []byte(jpegStart+image))
	}
	return sourcetest.Write(t, filepath.Join(dir, name), []byte(text))
}

// shown says labels by key.
func shown(t *testing.T, s *dataset.Split) string {
	t.Helper()
	var said []string
	for key, it := range mustItems(t, s) {
		testenv.Check(t, it.data == jpegStart+key || it.reason != "", "%s has other bytes", key)
		said = append(said, fmt.Sprintf("%s=%d%s", key, it.label, it.reason))
	}
	slices.Sort(said)
	return strings.Join(said, " ")
}

func TestListColumns(t *testing.T) {
	names := sourcetest.Write(t, filepath.Join(t.TempDir(), "names"), []byte("dog\ncat\n"))
	for name, tc := range map[string]struct {
		file, text string
		opts       dataset.Options
		want       string
		classes    string
	}{
		"numbers":             {"x.csv", "path,label\na.jpg,1\nsub/b.jpg,0\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"leading zeros":       {"x.csv", "path,label\na.jpg,001\nsub/b.jpg,010\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=10", "00 01 02 03 04 05 06 07 08 09 10"},
		"numbers, named":      {"x.csv", "path,label\na.jpg,1\nsub/b.jpg,0\n", dataset.Options{Classes: names}, "a.jpg=1 sub/b.jpg=0", "dog cat"},
		"names":               {"x.csv", "path,label\na.jpg,dog\nsub/b.jpg,cat\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=0", "cat dog"},
		"names, in order":     {"x.csv", "path,label\na.jpg,dog\nsub/b.jpg,cat\nc.jpg,cow\n", dataset.Options{Classes: names}, "a.jpg=0 sub/b.jpg=1", "dog cat"},
		"another order":       {"x.csv", "label,path\n3,a.jpg\n0,c.jpg\n", dataset.Options{}, "a.jpg=3 c.jpg=0", "0 1 2 3"},
		"semicolons":          {"x.csv", "path;label\na.jpg;1\nc.jpg;0\n", dataset.Options{}, "a.jpg=1 c.jpg=0", "0 1"},
		"more columns":        {"x.tsv", "\r\npath\tid\tlabel\r\na.jpg\t7\t1\r\n\r\nc.jpg\t9\t0\r\n", dataset.Options{}, "a.jpg=1 c.jpg=0", "0 1"},
		"which label":         {"x.csv", "path,fine,coarse\na.jpg,1,0\nc.jpg,0,0\n", dataset.Options{Label: "coarse"}, "a.jpg=0 c.jpg=0", "0"},
		"which by number":     {"x.csv", "path,fine,coarse\na.jpg,1,0\nc.jpg,0,0\n", dataset.Options{Label: "2"}, "a.jpg=1 c.jpg=0", "0 1"},
		"fastai's":            {"x.csv", "path,noisy_labels_0,noisy_labels_1,is_valid\na.jpg,n02,n01,False\nsub/b.jpg,n01,n01,True\n", dataset.Options{Label: "noisy_labels_0"}, "a.jpg=1 sub/b.jpg=0", "n01 n02"},
		"Hugging Face's":      {"metadata.csv", "file_name,label\na.jpg,1\nc.jpg,0\n", dataset.Options{}, "a.jpg=1 c.jpg=0", "0 1"},
		"pandas'":             {"x.csv", "path,label\na.jpg,1.0\nsub/b.jpg,\nc.jpg,0.0\n", dataset.Options{Test: true}, "a.jpg=1 c.jpg=0 sub/b.jpg=-1", "0 1"},
		"JSON's fractions":    {"x.jsonl", `{"path": "a.jpg", "label": 1.0}` + "\n" + `{"path": "c.jpg", "label": 0e0}`, dataset.Options{}, "a.jpg=1 c.jpg=0", "0 1"},
		"im2rec's":            {"x.tsv", "id\tlabel\tpath\n0\t1.000000\ta.jpg\n1\t0.000000\tsub/b.jpg\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"no labels":           {"x.csv", "path,label\na.jpg,\nsub/b.jpg,\n", dataset.Options{Test: true}, "a.jpg=-1 sub/b.jpg=-1", ""},
		"no column of labels": {"x.csv", "path\na.jpg\nsub/b.jpg\n", dataset.Options{Test: true}, "a.jpg=-1 sub/b.jpg=-1", ""},
		"numbers as names":    {"x.csv", "path,label\na.jpg,1\nsub/b.jpg,cat\n", dataset.Options{ForceClasses: true}, "a.jpg=0 sub/b.jpg=1", "1 cat"},
		"JSON":                {"x.jsonl", `{"file_name": "a.jpg", "label": 1, "more": [1, {}]}` + "\n\n" + `{"label": 0, "file_name": "c.jpg"}`, dataset.Options{}, "a.jpg=1 c.jpg=0", "0 1"},
		"JSON with some":      {"x.jsonl", `{"path": "a.jpg"}` + "\n" + `{"path": "c.jpg", "label": 1}`, dataset.Options{Test: true}, "a.jpg=-1 c.jpg=1", "0 1"},
		"JSON without":        {"x.jsonl", `{"path": "a.jpg", "label": [1]}`, dataset.Options{NoLabels: true}, "a.jpg=-1", ""},
		"JSON by key":         {"x.txt.jsonl", `{"path": "a.jpg", "alt": "x"}`, dataset.Options{Label: "json.alt"}, "a.jpg=0", "x"},
		"another path":        {"x.csv", "id,image_id,label\n7,a.jpg,1\n9,sub/b.jpg,0\n", dataset.Options{Path: "image_id"}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"path by number":      {"x.csv", "id,image_id,label\n7,a.jpg,1\n9,sub/b.jpg,0\n", dataset.Options{Path: "2"}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"no extensions":       {"x.csv", "path,label\na,1\nsub/b,0\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"a path in JSON":      {"x.jsonl", `{"image": {"id": "a"}, "label": 1}`, dataset.Options{Path: "image.id"}, "a.jpg=1", "0 1"},
		"slashes":             {"x.csv", "path,label\n/a.jpg,1\n/sub/b.jpg,0\n", dataset.Options{Images: "DIR"}, "a.jpg=1 sub/b.jpg=0", "0 1"},
		"absolute":            {"x.csv", "path,label\nDIR/a.jpg,1\nDIR/sub/b.jpg,0\n", dataset.Options{}, "a.jpg=1 sub/b.jpg=0", "0 1"},
	} {
		file := listOf(t, tc.file, "")
		sourcetest.Write(t, file, []byte(strings.ReplaceAll(tc.text, "DIR", filepath.Dir(file))))
		tc.opts.Images = strings.ReplaceAll(tc.opts.Images, "DIR", filepath.Dir(file))
		s := open(t, file, tc.opts)
		testenv.Equal(t, shown(t, s), tc.want, "%s: labels", name)
		if tc.classes != "" {
			testenv.Equal(t, strings.Join(s.Classes(), " "), tc.classes, "%s: classes", name)
		}
		testenv.Equal(t, s.Output, strings.TrimSuffix(file, filepath.Ext(file))+"-shards", "%s: output", name)
		testenv.Equal(t, s.Streamed(), false, "%s: streamed", name)
	}
	elsewhere := listOf(t, "x.csv", "path,label\na.jpg,1\nc.jpg,0\n")
	other := sourcetest.Write(t, filepath.Join(t.TempDir(), "list.csv"), []byte("path,label\na.jpg,1\nc.jpg,0\n"))
	labelled(t, open(t, other, dataset.Options{Images: filepath.Dir(elsewhere)}), "a.jpg=1 c.jpg=0", "0 1")
}

func TestListOfSplits(t *testing.T) {
	file := listOf(t, "all.csv", "path,label,split\na.jpg,cat,train\nsub/b.jpg,dog,train\nc.jpg,dog,Validation\nd.jpg,cat,test\n")
	splits := openSplits(t, 3, dataset.Options{}, file)
	for i, want := range []string{"train all-train-shards a.jpg=0 sub/b.jpg=1", "val all-val-shards c.jpg=1", "test all-test-shards d.jpg=0"} {
		name, rest, _ := strings.Cut(want, " ")
		output, labels, _ := strings.Cut(rest, " ")
		described(t, splits[i], splits[0].Format, name, filepath.Join(filepath.Dir(file), output))
		labelled(t, splits[i], labels, "cat dog")
	}
	labelled(t, open(t, file, dataset.Options{Split: "val"}), "c.jpg=1", "cat dog")
	blank := listOf(t, "blank.csv", "path,label,split\na.jpg,1,\nc.jpg,0,train\n")
	testenv.Equal(t, shown(t, open(t, blank, dataset.Options{Split: "train"})), "c.jpg=0", "train of a list with blanks")
	for _, text := range []string{"path,label,Split\na.jpg,1,train\nc.jpg,0,train\n", "path,label,word\na.jpg,1,train\nc.jpg,0,test\nd.jpg,1,bus\n"} {
		got := mustItems(t, open(t, listOf(t, "x.csv", text), dataset.Options{}))
		testenv.Equal(t, len(got), strings.Count(text, "jpg"), "images of %q", text)
	}
	testenv.Fails(Open(file, dataset.Options{Split: "more"}))(t, `no row is of the split "more"`)
}

func TestListsThatAreWrong(t *testing.T) {
	var someWnids strings.Builder
	for i, wnid := range wordnet.Wnids()[:950] {
		fmt.Fprintf(&someWnids, `{"path": "%d.jpg", "label": %q}`+"\n", i, wnid)
	}
	for name, tc := range map[string]struct {
		file, text string
		opts       dataset.Options
		want       string
	}{
		"a file is missing":    {"x.csv", "path,label\na.jpg,1\nnone.jpg,0\nsub/none.jpg,0\n", dataset.Options{}, "x.csv: line 3: there is no file DIR/none.jpg (2 lines name no file): complete"},
		"all are missing":      {"x.csv", "path,label\np/a.jpg,1\np/b.jpg,0\n", dataset.Options{}, "(2 lines name no file); to begin the paths in another folder, add --images"},
		"twice":                {"x.csv", "path,label\na.jpg,1\nc.jpg,0\n./a.jpg,1\n", dataset.Options{}, "x.csv: line 4: names the image of line 2 again (a.jpg)"},
		"a fraction":           {"x.csv", "path,label\na.jpg,1\nc.jpg,0.5\n", dataset.Options{}, "line 3: the label \"0.5\" is not a whole number"},
		"names and numbers":    {"x.csv", "path,label\na.jpg,1\nc.jpg,cat\n", dataset.Options{}, `line 3: the label "cat" is a name, and others are numbers (1)`},
		"negative":             {"x.csv", "path,label\na.jpg,1\nc.jpg,-2\n", dataset.Options{}, "line 3: the label -2 is not from 0"},
		"no label":             {"x.csv", "path,label\na.jpg,1\nc.jpg,\n", dataset.Options{}, "line 3: no label"},
		"no column of labels":  {"x.csv", "path,x\na.jpg,1\n", dataset.Options{}, `x.csv: has no column "label" of labels (path, x), which can be named by number too, from 1 on; to take another column for the labels, add --label COLUMN`},
		"no such column":       {"x.csv", "path,x,y\na.jpg,1,2\n", dataset.Options{Label: "z"}, `has no column "z" of labels (path, x, y)`},
		"no header":            {"x.csv", "a.jpg,1\nc.jpg,0\n", dataset.Options{}, `x.csv: has no column "path" (a.jpg, 1): the first line names the columns in UTF-8, as path,label`},
		"another number":       {"x.csv", "path,label\na.jpg,1\nb,c.jpg,0\n", dataset.Options{}, "line 3: wrong number of fields: put a field with the delimiter or a quotation mark in quotes"},
		"a quote that is open": {"x.csv", "path,label\na.jpg,1\n\"c.jpg,0\n" + strings.Repeat("d.jpg,1\n", 1<<18), dataset.Options{}, "a quote that is not closed"},
		"a long line":          {"x.csv", "path,label\n" + strings.Repeat("x", 2<<20), dataset.Options{}, "line 2: a line of more than"},
		"a stray quote":        {"x.csv", "path,label\na.jpg,1\nc\".jpg,0\n", dataset.Options{}, "line 3: bare \" in non-quoted-field: put a field with the delimiter or a quotation mark in quotes"},
		"climbing":             {"x.csv", "path,label\na.jpg,1\n../c.jpg,0\n", dataset.Options{}, `line 3: "../c.jpg" is a name that climbs out`},
		"elsewhere":            {"x.csv", "path,label\na.jpg,1\n/etc/passwd,0\n", dataset.Options{}, `line 3: "/etc/passwd" does not lie in DIR`},
		"slashes":              {"x.csv", "path,label\n/a.jpg,1\n/sub/b.jpg,0\n", dataset.Options{}, `line 2: "/a.jpg" does not lie in DIR; to begin the paths in another folder, add --images DIR`},
		"blank splits":         {"x.csv", "path,label,split\na.jpg,1,val\nc.jpg,0,\nd.jpg,0,\n", dataset.Options{}, "line 3: no split, and other lines have one: write it in 2 lines; to take one split alone, add --split val"},
		"no such path":         {"x.csv", "path,label\na.jpg,1\n", dataset.Options{Path: "id"}, `has no column "id" (path, label)`},
		"an address":           {"x.csv", "path,label\na.jpg,1\ns3://bucket/c.jpg,0\n", dataset.Options{}, "does not lie in DIR; to begin the paths in another folder, add --images"},
		"a folder":             {"x.csv", "path,label\na.jpg,1\nsub,0\n", dataset.Options{}, "line 3: sub is a folder"},
		"a strange split":      {"x.csv", "path,label,split\na.jpg,1,fold3\n", dataset.Options{}, `line 2: the split "fold3" is none`},
		"another split":        {"x.csv", "path,label,Split\na.jpg,1,train\nc.jpg,0,VAL\nd.jpg,1,val\n", dataset.Options{Split: "val"}, `the column "Split" tells splits apart (train, val), and this would join them: call it split; to take it as it is, add --force-classes`},
		"Kaggle's split":       {"x.csv", "class id,filepaths,labels,data set\n0,a.jpg,cat,train\n0,c.jpg,dog,valid\n0,d.jpg,dog,test\n", dataset.Options{Path: "filepaths", Label: "labels"}, `the column "data set" tells splits apart (test, train, val)`},
		"a subset in JSON":     {"x.jsonl", `{"path": "a.jpg", "label": "train", "subset": "test"}` + "\n" + `{"path": "c.jpg", "label": "x", "subset": "train"}`, dataset.Options{}, `the column "subset" tells splits apart (test, train)`},
		"two labels":           {"x.csv", "path,label,label\na.jpg,1,0\n", dataset.Options{}, `has several columns called "label"`},
		"null":                 {"x.jsonl", `{"path": "a.jpg", "label": 1}` + "\nnull\n", dataset.Options{}, "line 2: not a JSON object"},
		"an array":             {"x.jsonl", `[{"path": "a.jpg", "label": 1}]`, dataset.Options{}, "begins with a list of JSON, and an object in each line is wanted\n  to make a list of its objects:\n    jq -c '.[]' "},
		"arrays":               {"x.ndjson", `["a.jpg", 1]` + "\n" + `["c.jpg", 0]`, dataset.Options{}, "begins with a list of JSON, and an object in each line is wanted"},
		"empty":                {"x.csv", "", dataset.Options{}, "names no images"},
		"no JSON":              {"x.jsonl", `{"path": "a.jpg", "label": 1}` + "\n{", dataset.Options{}, "line 2: not a JSON object"},
		"a JSON label":         {"x.jsonl", `{"path": "a.jpg", "label": [1]}`, dataset.Options{}, `line 1: "label": is [1], not a string or number`},
		"no path in JSON":      {"x.jsonl", `{"url": "a.jpg", "label": 1}`, dataset.Options{}, `line 1: no path: each line names an image`},
		"no list":              {"x.txt", "a.jpg 3\n", dataset.Options{}, "is called .csv, .tsv or .jsonl and begins with path,label\n  to make a list of lines such as a.jpg 3:\n    (echo path,label;"},
		"a list in no tar":     {"x.tar", "\x00\x01,\x02.jpg\n", dataset.Options{}, "neither a tar nor a tar.gz"},
		"no folder of images":  {"x.csv", "path,label\na.jpg,1\n", dataset.Options{Images: "/nowhere/at/all"}, "--images names no folder"},
		"most of ILSVRC2012":   {"x.jsonl", someWnids.String(), dataset.Options{}, "has 950 of ILSVRC2012's 1,000 classes"},
	} {
		file := listOf(t, tc.file, tc.text)
		if tc.text == someWnids.String() {
			for i := range 950 {
				sourcetest.Write(t, filepath.Join(filepath.Dir(file), fmt.Sprintf("%d.jpg", i)), nil)
			}
		}
		said := strings.ReplaceAll(fmt.Sprint(refusal(file, tc.opts)), filepath.Dir(file), "DIR")
		testenv.Check(t, strings.Contains(said, tc.want), "%s: %s, want %q", name, said, tc.want)
	}
}

// TestListWithoutExtensions gives fields and images by names without an extension, unless two files have one.
func TestListWithoutExtensions(t *testing.T) {
	file := listOf(t, "x.csv", "image_id,label,score\na,1,7\nsub/b,0,9\n")
	s := open(t, file, dataset.Options{Path: "image_id", Fields: asked(t, "score=score:int64")})
	got := testenv.Must(fieldsOf(s))(t)
	testenv.Equal(t, fmt.Sprint(got["a.jpg"]["score"], got["sub/b.jpg"]["score"]), "7 9", "scores")
	sourcetest.Write(t, filepath.Join(filepath.Dir(file), "a"), []byte(jpegStart+"a"))
	labelled(t, open(t, file, dataset.Options{Path: "1"}), "a=1 sub/b.jpg=0", "0 1") // beside a file of that name
	sourcetest.Write(t, filepath.Join(filepath.Dir(file), "sub/b.png"), []byte(jpegStart))
	refuses(t, file, dataset.Options{Path: "1"}, "line 3: sub/b may be sub/b.jpg or sub/b.png: write the extension")
}

// TestListNeedsFilesThatAreThere reads links and anything but a regular file.
func TestListNeedsFilesThatAreThere(t *testing.T) {
	file := listOf(t, "x.csv", "path,label\na.jpg,1\nlink.jpg,0\ndangling.jpg,0\n")
	for name, to := range map[string]string{"link.jpg": "c.jpg", "dangling.jpg": "nowhere"} {
		testenv.OK(t, os.Symlink(to, filepath.Join(filepath.Dir(file), name)))
	}
	got := mustItems(t, open(t, file, dataset.Options{}))
	testenv.Check(t, len(got) == 3 && got["link.jpg"].data == jpegStart+"c.jpg" && got["dangling.jpg"].reason == transport.ReasonDangling,
		"%v", got)
}

// Whatever the bytes of a list, reading it gives labels of its classes or an error that names it.
func FuzzList(f *testing.F) {
	for _, text := range []string{"path,label\na.jpg,1\nc.jpg,0\n", "path\tlabel\r\na.jpg\tx\r\n", "\ufeffpath,label\n\"a.jpg\",\"x\ny\"\n",
		`{"path": "a.jpg", "label": 1}`, "path,label,split\na.jpg,cat,train\nc.jpg,cat,val\n", "path;label\na.jpg;x\n"} {
		f.Add([]byte(text))
	}
	file := filepath.Join(filepath.Dir(listOf(f, "x.csv", "")), "y.csv")
	large := regexp.MustCompile(`[0-9]{5}`) // a label of a million is as good as any, and slow
	f.Fuzz(func(t *testing.T, data []byte) {
		if large.Match(data) {
			return
		}
		sourcetest.Write(t, file, data)
		splits, err := Open(file, dataset.Options{})
		for _, s := range splits {
			var got map[string]item
			if got, err = items(s); err != nil {
				break
			}
			for key, it := range got {
				testenv.Check(t, it.label >= -1 && int(it.label) < len(s.Classes()),
					"%s has the label %d of %d classes", key, it.label, len(s.Classes()))
			}
		}
		testenv.Check(t, err == nil || strings.Contains(err.Error(), filepath.Dir(file)), "an error without the file's name: %v", err)
	})
}
