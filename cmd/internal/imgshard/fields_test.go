package imgshard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

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
	if m, err := shard.ReadManifest(set); err != nil || m.Samples != 2 {
		t.Fatal(m, err)
	}
	out := succeed(t, "ls", set, "--fields", "--json")
	testenv.Check(t, strings.Count(out, `"labels":[1,0]`) == 2 && strings.Contains(out, `"mask":{"height":20,"width":40}`), "%s", out)
	out = succeed(t, "stats", set, "--json")
	var st setStats
	testenv.OK(t, json.Unmarshal([]byte(out), &st))
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
