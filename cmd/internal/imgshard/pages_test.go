package imgshard

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// imageTree writes a folder of class folders: cat with 3 JPEGs (one grey), dog with a PNG of 20 × 10 and a file that is not an image.
func imageTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) { sourcetest.Write(t, filepath.Join(dir, name), content) }
	jpegOf := func(img image.Image) []byte {
		var b bytes.Buffer
		testenv.OK(t, jpeg.Encode(&b, img, nil))
		return b.Bytes()
	}
	colour := func(w, h int, c uint8) image.Image {
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		for i := range img.Pix {
			img.Pix[i] = c + uint8(i*7)
		}
		return img
	}
	gray := image.NewGray(image.Rect(0, 0, 10, 40))
	gray.SetGray(3, 3, color.Gray{200})
	write("cat/1.jpg", jpegOf(colour(40, 40, 1)))
	write("cat/2.jpg", jpegOf(colour(80, 40, 2)))
	write("cat/3.jpg", jpegOf(gray))
	write("dog/1.png", pngOf(t, colour(20, 10, 3)))
	write("dog/2.jpg", []byte("this is not an image"))
	return dir
}

func TestStats(t *testing.T) {
	set := filepath.Join(t.TempDir(), "train-shards")
	succeed(t, "build", imageTree(t), "-o", set, "--partitions", "2")
	st := testenv.FromJSON[setStats](t, succeed(t, "stats", set, "--json"))
	testenv.Check(t, st.Samples == 4 && st.Here == 4 && st.Classes == 2 && st.Unlabelled == 0 && st.Empty == 0 && st.Partitions == 2,
		"%+v", st)
	testenv.Check(t, st.Rarest[0] == (classCount{"dog", 1, 1}) && st.Commonest[0] == (classCount{"cat", 0, 3}),
		"rarest %v, commonest %v", st.Rarest, st.Commonest)
	testenv.Check(t, len(st.Formats) == 2 && st.Formats[0].Format == "jpeg" && st.Formats[0].Samples == 3 && st.Formats[1].Format == "png",
		"formats %v", st.Formats)
	testenv.Check(t, st.Width.Min == 10 && st.Width.Max == 80 && st.Width.Mean == 37.5 && st.Height.Max == 40,
		"width %+v, height %+v", st.Width, st.Height)
	testenv.Check(t, st.Aspect.Min == 0.25 && st.Aspect.Max == 2, "aspect %+v", st.Aspect)
	testenv.Require(t, st.Rejects.Samples == 1 && len(st.Rejects.Reasons) == 1, "rejects %+v", st.Rejects)
	reason := st.Rejects.Reasons[0]
	testenv.Check(t, reason.Example == "dog/2.jpg" && strings.Contains(reason.Reason, "not an image"), "rejects %+v", st.Rejects)

	testenv.Contains(t, succeed(t, "stats", set), "split train, 4 samples of 2 classes in 2 partitions", "width / height",
		"classes, rarest first: dog 1, cat 3", "left out by the build: 1", "dog/2.jpg: not an image")
	page := filepath.Join(t.TempDir(), "stats.html")
	succeed(t, "stats", set, "-o", page)
	html := string(testenv.Must(os.ReadFile(page))(t))
	testenv.Contains(t, html, `<td>dog<td class="number">1<td class="number">1`)
	testenv.Check(t, !strings.Contains(strings.Replace(html, "http-equiv", "", 1), "http"), "the page asks elsewhere: %s", html)
	left, _ := os.ReadDir(filepath.Dir(page))
	testenv.Check(t, len(left) == 1, "beside the page lie %v", left)
}

// TestBuildCountsWhatWasRepaired damages photographs' data: libjpeg, and with it Pillow, shows them all the same.
func TestBuildCountsWhatWasRepaired(t *testing.T) {
	tree, set := imageTree(t), filepath.Join(t.TempDir(), "train-shards")
	for _, name := range []string{"cat/1.jpg", "cat/2.jpg"} {
		data := testenv.Must(os.ReadFile(filepath.Join(tree, name)))(t)
		testenv.OK(t, os.WriteFile(filepath.Join(tree, name), data[:len(data)-2], 0o666)) // the EOI marker
	}
	for _, encoding := range []string{"original", "coefficients", "pixels"} {
		out := succeed(t, "build", tree, "-o", set, "--force", "--encoding", encoding)
		testenv.Contains(t, out, "repaired  damaged images", "dog/2.jpg: not an image (it begins 74 68 69 73",
			"2: jpeg: invalid format at byte 1539: no EOI marker after the scan; the first is cat/")
	}
}

// TestStatsOfAPart counts what is on this machine.
func TestStatsOfAPart(t *testing.T) {
	set := copySet(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(set, "rank-0001")))
	testenv.Contains(t, succeed(t, "stats", set), "statistics of the 3 samples on this machine")
}

func TestDistribution(t *testing.T) {
	once, twice := tally{}, tally{}
	for i := range 1001 {
		once[float64(i)] = 1
		twice[float64(i)] = 2
	}
	d := once.distribution()
	testenv.Check(t, d.Count == 1001 && d.Min == 0 && d.P5 == 50 && d.Median == 500 && d.P95 == 950 && d.Max == 1000, "%+v", d)
	testenv.Check(t, d.Mean == 500 && d.Low == 10 && d.High == 990, "%+v", d)
	sum := 0
	for _, n := range d.Histogram {
		sum += n
	}
	testenv.Check(t, sum == 981 && slices.Min(d.Histogram) >= 24 && slices.Max(d.Histogram) <= 26, "histogram %v", d.Histogram)
	if e := twice.distribution(); e.Count != 2002 || e.Median != 500 || e.P5 != 50 || e.P95 != 950 || e.Mean != 500 || e.Histogram[7] != 2*d.Histogram[7] {
		t.Errorf("of each twice: %+v", e)
	}
	few := tally{1: 3, 2: 1}.distribution()
	testenv.Check(t, few.Median == 1 && few.P95 == 2 && few.P5 == 1, "of three and one: %+v", few)
	none := tally{}.distribution()
	testenv.Check(t, none.Count == 0 && !math.IsNaN(none.Mean), "of nothing: %+v", none)
	testenv.Equal(t, sparkline([]int{0, 1, 4, 8, 0, 0}), " ▁▄█", "a line of bars")
}

// picturesOf decodes the pictures in a page.
func picturesOf(t *testing.T, page string) []image.Image {
	t.Helper()
	var list []image.Image
	for _, m := range regexp.MustCompile(`src="data:image/(?:jpeg|png);base64,([^"]+)"`).FindAllStringSubmatch(page, -1) {
		data := testenv.Must(base64.StdEncoding.DecodeString(m[1]))(t)
		img, _ := testenv.Must2(image.Decode(bytes.NewReader(data)))(t)
		list = append(list, img)
	}
	return list
}

// TestPagesEscape has a class and a file whose names are markup.
func TestPagesEscape(t *testing.T) {
	tree := imageTree(t)
	class := filepath.Join(tree, `<script>&"'`)
	testenv.OK(t, errors.Join(os.Mkdir(class, 0o777), os.Rename(filepath.Join(tree, "dog", "1.png"), filepath.Join(class, `"><b>.png`))))
	set := filepath.Join(t.TempDir(), "a<b>")
	succeed(t, "build", tree, "-o", set)
	const name = "&lt;script&gt;&amp;&#34;&#39;"
	for _, tt := range []struct {
		command string
		want    []string
	}{
		{"view", []string{"a&lt;b&gt;</title>", ": " + name + "</h2>", `data-search="` + name + " " + name + `/&#34;&gt;&lt;b&gt;.png `}},
		{"stats", []string{"a&lt;b&gt;</title>", "<td>" + name + "<td"}},
	} {
		page := succeed(t, tt.command, set, "-o", "-")
		testenv.Check(t, !strings.Contains(page, `<script>&`) && !strings.Contains(page, "<b>"), "%s:\n%s", tt.command, page)
		testenv.Contains(t, page, tt.want...)
	}
}

func TestViewOfASet(t *testing.T) {
	dir := t.TempDir()
	set, page := filepath.Join(dir, "train-shards"), filepath.Join(dir, "sheet.html")
	succeed(t, "build", imageTree(t), "-o", set)
	out := succeed(t, "view", set, "-o", page, "--transform", `[{"op":"RandomCrop","size":[8,9]}]`, "--draws", "3")
	testenv.Require(t, out == "4 samples of 4 on "+page+"\n", "%v", out)
	html := string(testenv.Must(os.ReadFile(page))(t))
	pictures := picturesOf(t, html)
	testenv.Require(t, len(pictures) == 4*(1+3), "%d pictures", len(pictures))
	testenv.Equal(t, pictures[1].Bounds().Size(), image.Pt(9, 8), "a draw of")
	testenv.Contains(t, html,
		"<h2>0: cat</h2>", "<h2>1: dog</h2>", "cat/1.jpg", "80 × 40, jpeg", "rank-0000/00000.imgshard", `data-search="dog dog/1.png`,
		`title="draw 2: [{&#34;op&#34;: &#34;crop&#34;`)
	before, after, found := strings.Cut(html, `http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; `)
	testenv.Check(t, found && !strings.Contains(before+after, "http"), "the page asks elsewhere, or may")
	for _, tt := range []struct {
		args []string
		want int
	}{{[]string{"--class", "dog"}, 1}, {[]string{"--find", "2.jpg"}, 1}, {[]string{"--index", "0,3"}, 2}, {[]string{"-n", "2"}, 2}} {
		page := succeed(t, append([]string{"view", set, "-o", "-"}, tt.args...)...)
		testenv.Equal(t, strings.Count(page, "<figure"), tt.want, "figures of %v", tt.args)
	}
}

// TestPagesOverwriteTheirOwnAlone has a page of each command, a note and an empty file where the page goes.
func TestPagesOverwriteTheirOwnAlone(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	for _, command := range []string{"view", "stats"} {
		other := map[string]string{"view": "stats", "stats": "view"}[command]
		for range 2 { // anew, and over its own
			succeed(t, command, trainSet, "-o", page)
		}
		want := "imgshard: imgshard " + other + " did not write " + page + ", and leaves it: choose another file with -o\n"
		for _, text := range []string{"<p>my notes", string(testenv.Must(os.ReadFile(page))(t))} {
			testenv.OK(t, os.WriteFile(page, []byte(text), 0o666))
			_, diag, status := imgshard(t, other, trainSet, "-o", page)
			testenv.Check(t, status == 1 && diag == want && string(testenv.Must(os.ReadFile(page))(t)) == text,
				"%s: status %d, %s; want %s", other, status, diag, want)
		}
		testenv.OK(t, os.Truncate(page, 0))
	}
}

func TestViewMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args   []string
		want   string
		status int
	}{
		{[]string{trainSet, "-n", "0"}, `--samples "0": want a whole number from 1 to 20000`, 2},
		{[]string{trainSet, "--draws", "3"}, "--draws needs --transform", 2},
		{[]string{trainSet, "--transform", "nosuch"}, `unknown transform "nosuch"`, 2},
		{[]string{trainSet, "-o", "sheet.png"}, "ends in .html", 2},
		{[]string{trainSet, "-o", filepath.Join(dir, "no", "such.html")}, "no such file", 1},
		{[]string{trainSet, "--class", "horse", "-o", "-"}, "no sample matches", 1},
		{[]string{filepath.Join(dir, "nothing")}, "no such file", 1},
		{[]string{images}, "not a shard set", 1},
		{[]string{trainSet, "--index", "99", "-o", "-"}, "99", 1},
	} {
		refused(t, tt.status, tt.want, append([]string{"view"}, tt.args...)...)
	}
	testenv.Fails(os.Stat("sheet.html"))(t, nil, "a sheet was left behind")
}

// report runs inspect --json on a path.
func report(t *testing.T, path string) inspection {
	t.Helper()
	text, diag, status := imgshard(t, "inspect", "--json", path)
	var r inspection
	err := json.Unmarshal([]byte(text), &r)
	testenv.Require(t, status == 0 && diag == "" && err == nil, "status %d, %v, %q\n%s", status, err, diag, text)
	return r
}

// TestInspectOfSetsAndSources shows datasets that lie beside sets, and which of them are packed.
func TestInspectOfSetsAndSources(t *testing.T) {
	src := datasetOf(t, synth.Options{Classes: 2, Train: 2, Val: 1, Size: 64})
	imgshard(t, "build", filepath.Join(src, "train"))
	r := report(t, src)
	testenv.Require(t, len(r.Sets) == 1 && len(r.Sources) == 2 && r.Build != "", "%+v", r)
	s := r.Sources[0]
	testenv.Check(t, s.Split == "train" && s.Path == filepath.Join(src, "train") && s.Output == s.Path+"-shards" && s.Layout != "", "%+v", s)
	text, _, _ := imgshard(t, "inspect", src)
	testenv.Contains(t, text, "train: set of ", "train: packed: a folder", "val: unpacked: a folder", "pack it: ")
}

// TestKeysForShells completes the arguments of cat and ls: folders, then keys, and never files.
func TestKeysForShells(t *testing.T) {
	defer func() { quiet = false }()
	set := filepath.Join(t.TempDir(), "set")
	succeed(t, "build", imageTree(t), "-o", set)
	const none, dirs = ":4\n", ":16\n" // cobra's directives: no files, and folders alone
	for args, want := range map[string]string{
		"cat|": dirs, "ls|": dirs, "cat|" + set + "|dog/": "dog/1.png\n" + none, "ls|" + set + "|cat/2": "cat/2.jpg\n" + none,
		"cat|" + set + "|horse": none, "cat|" + set + "|dog/1.png|": none, "ls|" + set + "|dog/1.png|cat/2": "cat/2.jpg\n" + none,
		"cat|/nonexistent|": none, "cat|s3://bucket/set|": none,
	} {
		out, _, status := imgshard(t, append([]string{"__complete"}, strings.Split(args, "|")...)...)
		lines := slices.Sorted(strings.Lines(out))
		got := strings.Join(append(lines[1:], lines[0]), "") // the directive comes last
		testenv.Check(t, status == 0 && got == want, "%s: status %d, %q, want %q", args, status, got, want)
	}
}

func TestInspectOfSets(t *testing.T) {
	r := report(t, trainSet)
	testenv.Require(t, len(r.Sets) == 1 && r.Sources != nil && len(r.Sources) == 0, "%+v", r)
	s := r.Sets[0]
	testenv.Check(t, s.Split == "train" && s.Path == trainSet && s.Samples == 5 && s.Partitions == 2 && s.Encoding.Name == "original",
		"%+v", s)
	testenv.Equal(t, len(s.Fingerprint), 64, "characters of the fingerprint")
	testenv.Check(t, slices.Equal(s.ClassNames, report(t, filepath.Dir(trainSet)).Sets[0].ClassNames) && len(s.ClassNames) == s.Classes,
		"the set, and the folder that holds it: %+v", s)
	text := succeed(t, "inspect", trainSet)
	testenv.Check(t, strings.HasPrefix(text, "train: set of 5 images in ") && strings.Contains(text, "2 partitions, at "+trainSet), "%v", text)
}

func TestInspectOfNeither(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		refused(t, 1, path, "inspect", path)
	}
	damaged := copySet(t)
	testenv.OK(t, os.WriteFile(filepath.Join(damaged, "manifest.json"), []byte(`{"format": "imgshard", "crc32c": "00000000"}`), 0o644))
	says(t, 1, "manifest", "inspect", damaged)
}

// TestInspectSaysLabels looks into a folder, which is counted, and a tar, which is not, and into what build refuses.
func TestInspectSaysLabels(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{"0/a.png": []byte("\x89PNG\r\n\x1a\n"), "2/b.jpg": []byte("\xff\xd8\xff\xe0"), "10/c.jpg": []byte("x")}
	for path, data := range files {
		sourcetest.Write(t, filepath.Join(dir, "it's", path), data)
	}
	r := report(t, filepath.Join(dir, "it's"))
	s := r.Sources[0]
	testenv.Check(t, s.Counted && s.Images == 3 && len(s.First) == 3 && s.Refused == "", "%+v", s)
	testenv.DeepEqual(t, s.ClassNames, []string{"0", "2", "10"}, "classes")
	for _, sample := range s.First {
		testenv.Check(t, sample.Label != nil && s.ClassNames[*sample.Label] == sample.Class, "%+v", sample)
		testenv.Check(t, strings.HasPrefix(sample.Key, sample.Class+"/"), "%+v", sample)
	}
	testenv.Check(t, len(s.Warnings) == 1 && strings.Contains(s.Warnings[0], "numeric order"), "warnings %q", s.Warnings)
	testenv.Equal(t, r.Build, `imgshard build '`+dir+`/it'\''s'`, "the command that builds")
	sourcetest.Write(t, filepath.Join(dir, "wnids/n01440764/a.jpg"), files["2/b.jpg"])
	sourcetest.Write(t, filepath.Join(dir, "wnids/n02012849/a.jpg"), files["2/b.jpg"])
	s = report(t, filepath.Join(dir, "wnids")).Sources[0]
	testenv.Check(t, s.First[0].Words == "tench, Tinca tinca" && s.First[1].Words == "crane", "words of wnids: %+v", s.First)
	text := succeed(t, "inspect", filepath.Join(dir, "wnids"))
	testenv.Contains(t, text, "label 0    n01440764 (tench, Tinca tinca)  n01440764/a.jpg\n")
	tar := sourcetest.Write(t, filepath.Join(dir, "x.tar"), sourcetest.Tar(t, sourcetest.File{Name: "a.cls", Data: []byte("7")},
		sourcetest.File{Name: "a.jpg", Data: files["2/b.jpg"]}, sourcetest.File{Name: "b.cls", Data: []byte("1")}, sourcetest.File{Name: "b.jpg", Data: files["2/b.jpg"]}))
	s = report(t, tar).Sources[0]
	testenv.Check(t, len(s.First) == 2 && *s.First[0].Label == 7 && s.First[0].Key == "a" && s.Bytes != 0, "%+v", s)
	sourcetest.Write(t, filepath.Join(dir, "G/data/cat/1.jpg"), nil)
	sourcetest.Write(t, filepath.Join(dir, "G/data/dog/2.jpg"), nil)
	text = says(t, 1, "", "inspect", filepath.Join(dir, "G"))
	testenv.Contains(t, text, "refused   ", "--classes-from 2")
	testenv.Check(t, !strings.Contains(text, "pack it"), "it says how to pack what is refused: %s", text)
	text = succeed(t, "info", filepath.Join(dir, "G"), "--classes-from", "2")
	testenv.Contains(t, text, "holds     2 images of 2 classes", "label 1    dog  data/dog/2.jpg")
}
