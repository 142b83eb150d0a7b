package imgshard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// TestAdvice writes to a full device: what to do stands after the system's words. A missing file needs no advice.
func TestAdvice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	says(t, 1, "no space left on device", "cat", trainSet, "0", "-o", "/dev/full")
	says(t, 1, "free some space", "cat", trainSet, "0", "-o", "/dev/full")
	_, diag, _ := imgshard(t, "ls", filepath.Join(t.TempDir(), "nothing"))
	testenv.Check(t, strings.HasSuffix(diag, "no such file or directory\n"), "%q", diag)
}

// TestWordsOfMistakes says of a mistake in the command line what is wanted.
func TestWordsOfMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "buidl" (did you mean "build"?)`:                   {"buidl", "x"},
		`unknown flag: --jbos (did you mean --jobs?)`:                       {"build", "x", "--jbos", "2"},
		`--seed "-1": want a whole number from 0 to 9223372036854775807`:    {"build", "x", "--seed", "-1"},
		`--jobs "two": want a whole number`:                                 {"build", "x", "--jobs", "two"},
		"imgshard copy with 1 argument: want imgshard copy A B":             {"copy", "x"},
		"imgshard build with 0 arguments: want imgshard build SRC":          {"build"},
		`--part "5/4": want I/N, the I-th of N parts, as 1/4`:               {"build", "x", "-o", "y", "--part", "5/4"},
		"--part needs -o OUT":                                               {"build", "x", "--part", "1/4"},
		"--output ~/x would be a folder named ~":                            {"build", "x", "--output=~/x"},
		"--output ~/y would be a folder named ~":                            {"repack", trainSet, "--output=~/y"},
		"OUT ~/z would be a folder named ~":                                 {"synth", "~/z"},
		`--jobs "99999999999999999999": want a whole number from 0 to 4096`: {"build", "x", "--jobs", "99999999999999999999"},
		`--val "99999999999999999999": want a whole number, 0 or more`:      {"synth", "x", "--val", "99999999999999999999"},
		`--resize "0": want 256 (the shorter side)`:                         {"repack", trainSet, "-o", "x", "--resize", "0"},
		`--codec "zip": want one of bitpack, `:                              {"repack", trainSet, "-o", "x", "--codec", "zip"},
		`--interpolation: resample: unknown interpolation "cube"`:           {"repack", trainSet, "-o", "x", "--interpolation", "cube"},
		"--shard-size 1: a shard has at least 1MiB":                         {"repack", trainSet, "-o", "nowhere", "--shard-size", "1"},
		`--classes "0": want a whole number from 1 to 100000`:               {"synth", "z", "--classes", "0"},
		`--size "8193": want a whole number from 2 to 8192`:                 {"synth", "z", "--size", "8193"},
		"repack needs an output folder: -o OUT":                             {"repack", trainSet},
		`--partitions "0": want a whole number from 1 to`:                   {"repack", trainSet, "-o", "x", "--partitions", "0"},
	} {
		_, diag, status := imgshard(t, args...)
		testenv.Check(t, status == 2 && strings.HasPrefix(diag, "imgshard: "+want), "%q: status %d, %q, want %q", args, status, diag, want)
	}
}

// TestParts makes the sets of two splits by parts.
func TestParts(t *testing.T) {
	src, out := datasetOf(t, synth.Options{Classes: 3, Train: 3, Val: 1, Size: 64}), filepath.Join(t.TempDir(), "out")
	part := func(text string) string {
		t.Helper()
		_, diag, status := imgshard(t, "build", src, "-o", out, "--part", text)
		testenv.Require(t, status <= 1, "part %s: status %d, %s", text, status, diag)
		return diag
	}
	part("2/2")
	says(t, 1, "lacks parts of 2: 1. Run each, as imgshard build SRC -o "+out+" --part 1/2", "merge", out)
	part("1/2")
	testenv.Contains(t, succeed(t, "merge", out), "train: 9 images of 3 classes", "val: 3 images")
	testenv.Contains(t, part("1/2"), "is complete: use --force here")
}

// TestSelect takes some of the samples, by their keys and by their indices: labels stay as they are.
func TestSelect(t *testing.T) {
	src, dir := datasetOf(t, synth.Options{Classes: 3, Train: 3, Val: 1, Size: 64}), t.TempDir()
	build := func(name string, args ...string) map[string]string {
		t.Helper()
		out := filepath.Join(dir, name)
		succeed(t, append(args, "-o", out)...)
		testenv.Equal(t, len(testenv.Must(shard.ReadManifest(out))(t).Classes), 3, "classes")
		text, _, _ := imgshard(t, "ls", out)
		labels := make(map[string]string) // by key
		for line := range strings.Lines(text) {
			columns := strings.Split(line, "\t")
			labels[columns[1]] = columns[2]
		}
		return labels
	}
	train := filepath.Join(src, "train")
	all := build("all", "build", train)
	keys := slices.Sorted(maps.Keys(all))
	list := sourcetest.Write(t, filepath.Join(dir, "keys"), []byte(strings.Join(keys[2:5], "\n")+"\n"))
	only, rest := build("only", "build", train, "--only", list), build("rest", "build", train, "--exclude", list)
	testenv.Check(t, len(only) == 3 && len(rest) == len(all)-3, "%d and %d samples of %d", len(only), len(rest), len(all))
	testenv.DeepEqual(t, build("again", "repack", filepath.Join(dir, "all"), "--exclude", list), rest, "what repack takes")
	for key, label := range rest {
		testenv.Check(t, all[key] == label && !slices.Contains(keys[2:5], key), "%s has the label %s, and %s in all", key, label, all[key])
	}
	// A build that was made of other samples is not taken for this one.
	says(t, 1, "finished shard set", "build", train, "-o", filepath.Join(dir, "rest"))
}

// TestClassesOfValAreCheckedFirst lays out a val whose classes are not train's: nothing is packed.
func TestClassesOfValAreCheckedFirst(t *testing.T) {
	src := datasetOf(t, synth.Options{Classes: 3, Train: 2, Val: 1, Size: 64})
	testenv.OK(t, os.Mkdir(filepath.Join(src, "val", "other"), 0o777))
	val := filepath.Join(src, "val")
	images := testenv.Must(filepath.Glob(filepath.Join(val, "*/*")))(t)
	testenv.OK(t, os.Rename(images[0], filepath.Join(val, "other", filepath.Base(images[0]))))
	_, diag, status := imgshard(t, "build", src, "--force-classes")
	_, err := os.Stat(filepath.Join(src, "train-shards"))
	testenv.Check(t, status == 1 && strings.Contains(diag, "not among the 3 of the other split (other)") && os.IsNotExist(err),
		"status %d, %v, %s", status, err, diag)
}

// TestClassesOfTrain builds val by itself: a warning names other classes than those of train beside it, and --classes takes train's.
func TestClassesOfTrain(t *testing.T) {
	src := datasetOf(t, synth.Options{Classes: 4, Train: 1, Val: 1, Size: 64})
	classes := testenv.Must(os.ReadDir(filepath.Join(src, "val")))(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(src, "val", classes[0].Name())))
	train, val := filepath.Join(src, "train"), filepath.Join(src, "val")
	const warning = "has other classes than "
	_, diag, status := imgshard(t, "build", train)
	testenv.Require(t, status == 0 && !strings.Contains(diag, warning), "train by itself: status %d, %s", status, diag)
	says(t, 0, "warning: "+val+" "+warning+train+"-shards beside it, from label 0 on", "build", val)
	_, diag, status = imgshard(t, "build", val, "--force", "--classes", train+"-shards")
	testenv.Check(t, status == 0 && !strings.Contains(diag, "warning"), "status %d, %s", status, diag)
	m, err := shard.ReadManifest(val + "-shards")
	testenv.Check(t, err == nil && len(m.Classes) == 4 && m.Classes[0] == classes[0].Name(), "%v, %v", m, err)
}

// TestHomeIsNoFolder names a path as a shell leaves it after an equals sign.
func TestHomeIsNoFolder(t *testing.T) {
	for _, args := range [][]string{{"ls", "~/nowhere"}, {"build", "~/nowhere"}, {"view", trainSet, "--output=~/nowhere/sheet.html"}} {
		says(t, 1, "write $HOME", args...)
	}
}

// TestProgressPrintsALineNowAndThen shows progress where there is no terminal, and none with --quiet.
func TestProgressPrintsALineNowAndThen(t *testing.T) {
	for flag, want := range map[string]string{"--quiet=false": "train: packing 69 of 1,500 images, 3.2 MiB/s, 7m3s left", "--quiet": ""} {
		imgshard(t, "ls", trainSet, flag)
		var out bytes.Buffer
		clock := time.Unix(0, 0)
		p := newProgress(&out)
		p.now = func() time.Time { return clock }
		for i := range 100 {
			clock = clock.Add(300 * time.Millisecond)
			p.update(pack.Progress{Split: "train", Stage: pack.StagePack, Images: i + 1, Bytes: int64(i+1) * 1e6, Total: 1500, Rejected: i / 90})
		}
		p.finish()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		testenv.Check(t, lines[len(lines)-1] == want && len(lines) == 1+min(1, len(want)), "%s: printed %q", flag, lines)
	}
	quiet = false
}

// TestProgressOnATerminal changes one line, as wide as the terminal, and clears it; no line where a terminal cannot go back on it.
func TestProgressOnATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/ptmx: ", err)
	}
	defer terminal.Close()
	for name, want := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", name)
		testenv.Equal(t, newProgress(terminal).terminal, want, "TERM=%s: draws", name)
	}
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Skip(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	testenv.OK(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 30}))
	t.Setenv("TERM", "xterm")
	clock := time.Unix(0, 0)
	p := newProgress(screen)
	p.now = func() time.Time { return clock }
	for i := range 3 {
		p.update(pack.Progress{Split: "train", Stage: pack.StagePack, Images: i + 1, Total: 1500})
		clock = clock.Add(time.Second)
	}
	p.finish()
	screen.Close()
	drawn, _ := io.ReadAll(terminal) // A terminal without a screen ends by an error.
	testenv.Equal(t, string(drawn), "\rtrain: packing 2 of 1,500 ima\x1b[K\rtrain: packing 3 of 1,500 ima\x1b[K\r\x1b[K", "what is drawn")
}

// TestJSON reads the reports of build and verify as programs do, and has --quiet print none.
func TestJSON(t *testing.T) {
	src := filepath.Join(datasetOf(t, synth.Options{Classes: 2, Train: 2, Size: 64}), "train")
	out := filepath.Join(t.TempDir(), "out")
	built := testenv.FromJSON[builtSet](t, succeed(t, "build", src, "-o", out, "--json"))
	testenv.Check(t, built.Split == "train" && built.Path == out && built.Samples > 0 && built.Bytes > 0, "%+v", built)
	verified := testenv.FromJSON[verifiedSet](t, succeed(t, "verify", out, "--json"))
	testenv.Check(t, verified.Read == built.Samples && len(verified.Problems) == 0, "%+v", verified)
	shards, _ := filepath.Glob(filepath.Join(out, "*", "*.imgshard"))
	testenv.OK(t, os.Truncate(shards[0], 5000))
	testenv.OK(t, json.Unmarshal([]byte(says(t, 1, "", "verify", out, "--json")), &verified))
	testenv.Check(t, len(verified.Problems) > 0 && strings.Contains(verified.Problems[0], shards[0]), "%+v", verified)
	defer func() { quiet = false }()
	testenv.Equal(t, quietly(t, "build", src, "-o", out, "--force", "-q"), "", "the output with --quiet")
}

// TestHelpOfBuild fits two screens, names every flag once, and leaves the forms of SRC to --help-sources.
func TestHelpOfBuild(t *testing.T) {
	t.Setenv("COLUMNS", "120")
	text, _, _ := imgshard(t, "build", "--help")
	lines := strings.Count(text, "\n")
	testenv.Check(t, lines <= 90, "%d lines", lines)
	c := newBuildCommand()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		n := len(regexp.MustCompile(`(?m)^ +(-\w, )?--`+f.Name+` `).FindAllString(text, -1))
		testenv.Check(t, n == 1, "--%s stands there %d times", f.Name, n)
	})
	testenv.Contains(t, succeed(t, "build", "--help-sources"), "\n  WebDataset\n")
}

// TestTook counts from a command's start to its first summary, and from there to the next.
func TestTook(t *testing.T) {
	p := newProgress(io.Discard)
	clock := p.summed
	p.now = func() time.Time { return clock }
	for _, want := range []time.Duration{3 * time.Second, 5 * time.Second} {
		p.update(pack.Progress{Split: "train", Stage: pack.StagePack, Images: 1, Total: 2}) // which begins a stage and not a summary
		clock = clock.Add(want)
		p.finish()
		testenv.Equal(t, p.took(), want, "the time")
	}
}

func TestBuildPrintsWhatItMade(t *testing.T) {
	demo := datasetOf(t, synth.Options{Classes: 2, Train: 4, Val: 1, Size: 20})
	testenv.OK(t, os.WriteFile(filepath.Join(demo, "train/n90000000/x.txt"), []byte("text"), 0o666))
	out, diag, _ := imgshard(t, "build", demo, "--partitions", "2", "--shard-size", "1MiB")
	testenv.Contains(t, out,
		"train: 8 images of 2 classes in 2 shards", "2 partitions of 4 to 4 images", "1 unreadable file", "n90000000/x.txt: not an image",
		"val: 2 images of 2 classes", filepath.Join(demo, "val-shards"))
	testenv.Contains(t, diag, "is a folder of class folders")
	out = succeed(t, "build", demo, "--partitions", "2", "--shard-size", "1MiB")
	testenv.Check(t, strings.Count(out, "is complete, with the same options: nothing to do (--force") == 2, "a second time: %s", out)
	says(t, 1, "built with other options: --force replaces it", "build", demo, "--partitions", "1")
}

func TestSmallImagesArePackedAsPixels(t *testing.T) {
	src := filepath.Join(t.TempDir(), "cifar-10-batches-bin")
	testenv.OK(t, os.Mkdir(src, 0o777))
	files := map[string][]byte{"batches.meta.txt": []byte("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n")}
	for _, name := range []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"} {
		files[name+".bin"] = bytes.Repeat([]byte{3}, 2*3073) // two grey images of the class d
	}
	for name, data := range files {
		testenv.OK(t, os.WriteFile(filepath.Join(src, name), data, 0o666))
	}
	set := filepath.Join(t.TempDir(), "set")
	says(t, 0, "small images", "build", src, "-o", set)
	m, err := shard.ReadManifest(filepath.Join(set, "val"))
	testenv.Check(t, err == nil && m.Encoding.Name == "pixels" && strings.Contains(string(m.Encoding.Params), `"none"`), "%+v, %v", m, err)
	says(t, 2, "", "build", src, "--encoding", "jpeg")
}

// TestBuildTakesAnEmptyFolder packs to where an empty folder is, and insists on classes by flags.
func TestBuildTakesAnEmptyFolder(t *testing.T) {
	src, out := datasetOf(t, synth.Options{Classes: 2, Train: 2, Val: -1, Size: 20}), t.TempDir()
	testenv.OK(t, os.Rename(filepath.Join(src, "train"), filepath.Join(src, "classes")))
	says(t, 1, "--classes-from 2; to take it as it is, add --force-classes\n"+
		"  to take the folder that is meant:\n    imgshard build "+src+"/classes\n",
		"build", src, "-o", out)
	succeed(t, "build", src, "-o", out, "--classes-from", "2")
	m, err := shard.ReadManifest(out)
	testenv.Check(t, err == nil && len(m.Classes) == 2 && m.Samples == 4, "%+v, %v", m, err)
}

// TestBuildOfStandardInput packs a tar from a pipe, and wants to be told where to.
func TestBuildOfStandardInput(t *testing.T) {
	train := filepath.Join(datasetOf(t, synth.Options{Classes: 2, Train: 2, Val: -1, Size: 20}), "train")
	read, write := testenv.Must2(os.Pipe())(t)
	was := os.Stdin
	os.Stdin = read
	defer func() { os.Stdin = was }()
	go func() {
		write.Write(sourcetest.TarOfTree(t, sourcetest.ReadTree(t, train), "", 1))
		write.Close()
	}()
	for _, args := range [][]string{{"build", "-"}, {"inspect", "-"}} {
		says(t, 2, "standard input", args...)
	}
	set := filepath.Join(t.TempDir(), "set")
	says(t, 0, "train: standard input is a tar of class folders", "build", "-", "-o", set)
	succeed(t, "build", train, "-o", set+"2")
	testenv.Check(t, reflect.DeepEqual(sourcetest.ReadTree(t, set), sourcetest.ReadTree(t, set+"2")), "another set than that of the folder")
}

// TestRepack makes pixels sets by build and by repack, and checks what their manifests keep.
func TestRepack(t *testing.T) {
	parent := t.TempDir()
	original, small := filepath.Join(parent, "jpeg"), filepath.Join(parent, "pixels")
	succeed(t, "build", images, "-o", original, "--partitions", "2", "--seed", "3")
	flags := []string{"--resize", "8x9", "--interpolation", "bicubic", "--resampler", "pillow-12", "--codec", "lz4"}
	testenv.Contains(t, succeed(t, append([]string{"repack", original, "-o", small}, flags...)...), "pixels")
	a, errA := shard.ReadManifest(original)
	b, errB := shard.ReadManifest(small)
	testenv.Require(t, errA == nil && errB == nil && a.Fingerprint == b.Fingerprint && b.Partitions == 2 && b.Seed == 3,
		"%v, %v: %d partitions, seed %d", errA, errB, b.Partitions, b.Seed)
	testenv.Contains(t, strings.Join(strings.Fields(string(b.Encoding.Params)), ""),
		`"codec":"lz4"`, `"resize":"8x9"`, `"interpolation":"bicubic"`, `"resampler":"pillow-12"`)
	succeed(t, "verify", small)
}

// TestCopyOverADamagedSet brings the files that are damaged or missing, and no others.
func TestCopyOverADamagedSet(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	succeed(t, "build", images, "-o", good, "--partitions", "2")
	name := filepath.Join("rank-0001", "00000.imgshard")
	want := testenv.Must(os.ReadFile(filepath.Join(good, name)))(t)
	flipped := append([]byte(nil), want...)
	flipped[len(want)/2] ^= 1
	for what, damage := range map[string]func(path string) error{
		"a record":  func(path string) error { return os.WriteFile(path, flipped, 0o666) },
		"cut short": func(path string) error { return os.Truncate(path, int64(len(want)/2)) },
		"a shard":   os.Remove,
		"a folder":  func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		testenv.OK(t, os.CopyFS(bad, os.DirFS(good)))
		testenv.OK(t, damage(filepath.Join(bad, name)))
		testenv.Contains(t, succeed(t, "copy", good, bad), "1 file copied, 1 kept")
		testenv.Same(t, testenv.Must(os.ReadFile(filepath.Join(bad, name)))(t), want, "%s: the shard", what)
		testenv.OK(t, os.WriteFile(filepath.Join(bad, "manifest.json"), []byte("{"), 0o666))
		says(t, 1, "its manifest is damaged", "copy", good, bad)
	}
}

// TestEncodingFlags gives command lines, and wants the encoding or the beginning of the error.
func TestEncodingFlags(t *testing.T) {
	for _, c := range []struct {
		args   string
		repack bool
		small  bool
		want   string
	}{
		{"", false, false, "original"},
		{"", false, true, "pixels (bitpack, resize none)"},
		{"", true, false, "pixels (bitpack, resize 256 bilinear, pillow-13)"},
		{"--encoding original", false, true, "original"},
		{"--encoding original", true, false, "original"},
		{"--codec zstd", false, true, "pixels (zstd, resize none)"},
		{"--resize 16", false, true, "pixels (bitpack, resize 16 bilinear, pillow-13)"},
		{"--encoding pixels", false, true, "pixels (bitpack, resize none)"},
		{"--resize max:500 --codec zstd", false, true, "pixels (zstd, resize max:500 bilinear, pillow-13)"},
		{"--encoding pixels --resampler pillow-12 --interpolation box", false, false, "pixels (bitpack, resize 256 box, pillow-12)"},
		{"--codec lz4", false, false, "--codec: for --encoding pixels; original stores the files' own bytes"},
		{"--encoding original --codec lz4 --resize 3", false, true, "--resize, --codec: for --encoding pixels"},
		{"--encoding jpeg", false, false, "--encoding jpeg: want original"},
		{"--resize big", true, false, "--resize \"big\": want 256"},
		{"--interpolation sharp", true, false, "--interpolation: "},
		{"--encoding pixels --resampler pillow-1", false, false, "--resampler: "},
	} {
		fl := pflag.NewFlagSet("build", pflag.ContinueOnError)
		var f packFlags
		f.registerEncoding(fl, c.repack)
		testenv.OK(t, fl.Parse(strings.Fields(c.args)))
		got := ""
		e, err := f.chooseEncoding(c.small)
		if err != nil {
			got = err.Error()
		} else {
			got = e.String()
		}
		testenv.Check(t, got == c.want || err != nil && strings.HasPrefix(got, c.want),
			"%q, repack %v, small %v: %s, want %s", c.args, c.repack, c.small, got, c.want)
	}
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
		one := testenv.FromJSON[struct{ Fields json.RawMessage }](t, line)
		testenv.Equal(t, string(one.Fields), want, "%s", line)
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
	testenv.Equal(t, testenv.Must(shard.ReadManifest(set))(t).Samples, 2, "samples")
	out := succeed(t, "ls", set, "--fields", "--json")
	testenv.Check(t, strings.Count(out, `"labels":[1,0]`) == 2 && strings.Contains(out, `"mask":{"height":20,"width":40}`), "%s", out)
	out = succeed(t, "stats", set, "--json")
	st := testenv.FromJSON[setStats](t, out)
	objects := st.Objects
	testenv.Require(t, objects != nil && objects.Count == 4 && objects.PerImage.Median == 2, "%s", out)
	testenv.Check(t, len(objects.Classes) == 2 && objects.Width.Max == 20, "%s", out)
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
