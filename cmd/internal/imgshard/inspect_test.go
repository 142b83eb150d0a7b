package imgshard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
)

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
	src := filepath.Join(t.TempDir(), "data")
	writeDataset(t, src, synth.Options{Classes: 2, Train: 2, Val: 1, Size: 64})
	imgshard(t, "build", filepath.Join(src, "train"))
	r := report(t, src)
	testenv.Require(t, len(r.Sets) == 1 && len(r.Sources) == 2 && r.Build != "", "%+v", r)
	s := r.Sources[0]
	testenv.Check(t, s.Split == "train" && s.Path == filepath.Join(src, "train") && s.Output == s.Path+"-shards" && s.Layout != "",
		"%+v", s)
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
	testenv.Check(t, s.Split == "train" && s.Path == trainSet && s.Samples == 5 && s.Partitions == 2 && s.Encoding.Name == "original", "%+v", s)
	testenv.Equal(t, len(s.Fingerprint), 64, "characters of the fingerprint")
	testenv.Check(t, slices.Equal(s.ClassNames, report(t, filepath.Dir(trainSet)).Sets[0].ClassNames) && len(s.ClassNames) == s.Classes,
		"the set, and the folder that holds it: %+v", s)
	text := succeed(t, "inspect", trainSet)
	testenv.Check(t, strings.HasPrefix(text, "train: set of 5 images in ") && strings.Contains(text, "2 partitions, at "+trainSet),
		"%v", text)
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

// TestFields packs the images with values from a list, and looks at these.
func TestFields(t *testing.T) {
	parent := t.TempDir()
	src, set := filepath.Join(parent, "train"), filepath.Join(parent, "set")
	testenv.OK(t, os.CopyFS(src, os.DirFS(images)))
	files := testenv.Must(filepath.Glob(filepath.Join(src, "*/*")))(t)
	list := ""
	for _, file := range files {
		folder, name := filepath.Base(filepath.Dir(file)), filepath.Base(file)
		list += fmt.Sprintf(`{"path": "%s/%s", "label": %[1]q, "score": 0.5, "box": [1, -2], "gap": "<\t>", "caption": "a caption", "raw": "\u0000\u007f"}`+"\n", folder, name)
	}
	testenv.OK(t, os.WriteFile(filepath.Join(src, "train.jsonl"), []byte(list), 0o666))
	flags := []string{"--field", "score=json.score:float32", "--field", "caption=caption:text", "--field", "box=json.box:int64[2]", "--field", "gap=json.gap", "--field", "raw=raw:bytes"}
	succeed(t, append([]string{"build", filepath.Join(src, "train.jsonl"), "-o", set}, flags...)...)
	testenv.Contains(t, succeed(t, "inspect", set), "  fields    score float32\n            caption text\n")
	m := testenv.Must(shard.ReadManifest(set))(t)
	testenv.Require(t, m.Samples == 5 && len(m.Fields) == 5, "%+v", m)
	const want = `{"score":0.5,"caption":"a caption","box":[1,-2],"gap":"<\t>","raw":"AH8="}`
	testenv.Equal(t, strings.Count(succeed(t, "ls", set, "--fields"), "\t"+want+"\n"), 5, "samples with these values")
	for line := range strings.Lines(succeed(t, "ls", set, "--fields", "--json")) {
		var one struct{ Fields json.RawMessage }
		err := json.Unmarshal([]byte(line), &one)
		testenv.Check(t, err == nil && string(one.Fields) == want, "%s: %v", line, err)
	}
	for field, want := range map[string]string{"score": "0.5\n", "caption": "a caption", "box": "[1,-2]\n", "gap": `"<\t>"`, "raw": "\x00\x7f"} {
		testenv.Equal(t, succeed(t, "cat", set, "3", "--field", field), want, "%s", field)
	}
	says(t, 1, `no field "colour": the set has [score float32 caption text box int64[2]`, "cat", set, "3", "--field", "colour")
	text, _, _ := imgshard(t, "ls", trainSet, "--fields")
	testenv.Check(t, strings.Count(text, "\t{}\n") == 5, "%v", text)
	succeed(t, "verify", set, "--images")
	for _, flag := range []string{"caption", "caption=txt:words", "=txt"} {
		says(t, 2, "", "build", filepath.Join(src, "train.jsonl"), "-o", set, "--field", flag)
	}
}

// TestTargets packs boxes and masks of one folder, and looks at the set with each command.
func TestTargets(t *testing.T) {
	dir := t.TempDir()
	src, set := filepath.Join(dir, "data"), filepath.Join(dir, "set")
	write := func(name string, data []byte) { sourcetest.Write(t, filepath.Join(src, name), data) }
	size := image.Rect(0, 0, 40, 20)
	mask := image.NewGray(size)
	for i := range mask.Pix[:200] {
		mask.Pix[i] = 1
	}
	for _, name := range []string{"a", "b", "none"} {
		write("images/"+name+".png", pngOf(t, image.NewRGBA(size)))
		write("masks/"+name+".png", pngOf(t, mask))
	}
	write("masks/none.png", pngOf(t, image.NewGray(image.Rect(0, 0, 20, 40))))
	write("images/empty.png", pngOf(t, image.NewRGBA(size)))
	write("masks/empty.png", pngOf(t, mask))
	for _, name := range []string{"a", "b", "none"} {
		write("labels/"+name+".txt", []byte("1 .5 .5 .5 .5\n0 .9 .5 .4 .5\n"))
	}
	write("classes.txt", []byte("cat\ndog\n"))
	testenv.Contains(t, succeed(t, "build", src, "-o", set, "--targets", "both", "--drop-empty"),
		"objects objects of 2 classes", "1 image has no objects, and is left out: empty.png",
		"the mask has 20×40 pixels, and the image 40×20", "2 boxes reach out of their images: a.png")
	write("../bare/images/a.png", pngOf(t, image.NewRGBA(size)))
	write("../bare/labels/a.txt", nil)
	_, diag, _ := imgshard(t, "build", filepath.Join(dir, "bare"), "--drop-empty")
	testenv.Contains(t, diag, "has no image with objects, and --drop-empty leaves out the others (1)")
	m, err := shard.ReadManifest(set)
	testenv.Require(t, err == nil && m.Samples == 2, "%v, %v", m, err)
	out := succeed(t, "ls", set, "--fields", "--json")
	testenv.Check(t, strings.Count(out, `"labels":[1,0]`) == 2 && strings.Contains(out, `"mask":{"height":20,"width":40}`), "%s", out)
	out = succeed(t, "stats", set, "--json")
	var st setStats
	testenv.OK(t, json.Unmarshal([]byte(out), &st))
	objects := st.Objects
	testenv.Check(t, objects != nil && objects.Count == 4 && objects.PerImage.Median == 2 && len(objects.Classes) == 2 && objects.Width.Max == 20, "%s", out)
	testenv.Check(t, len(st.Pixels) == 2 && st.Pixels[1].Share == 0.25 && st.Pixels[1].Class == "dog", "%s", out)
	testenv.Contains(t, succeed(t, "stats", set), "label 1 dog: 25.000 % of the pixels, in 2 images", "width of a box")
	plain, sheet := filepath.Join(dir, "plain"), filepath.Join(dir, "sheet.html")
	succeed(t, "view", set, "-o", sheet, "--transform", "detection", "--draws", "2")
	succeed(t, "build", src, "-o", plain, "--targets", "none")
	page, err := os.ReadFile(sheet)
	testenv.Check(t, err == nil && bytes.Count(page, []byte("<img ")) == 6 && !bytes.Contains(page, []byte(`<span class="warn">`)),
		"%d pictures, %v", bytes.Count(page, []byte("<img ")), err)
	says(t, 1, "leave the sizes to the transform", "build", src, "-o", plain, "--force", "--encoding", "pixels")
	says(t, 1, "built with other options", "build", src, "-o", set, "--targets", "both")
	for _, flags := range [][]string{{"--targets", "all"}, {"--box-format", "yxyx"}} {
		says(t, 2, "", append([]string{"build", src, "-o", set}, flags...)...)
	}
}
