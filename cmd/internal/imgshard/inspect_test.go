package imgshard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
	src := datasetOf(t, synth.Options{Classes: 2, Train: 2, Val: 1, Size: 64})
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
	testenv.Check(t, s.Split == "train" && s.Path == trainSet && s.Samples == 5 && s.Partitions == 2 && s.Encoding.Name == "original",
		"%+v", s)
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
