package imgshard

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// TestTargets packs boxes and masks of one folder, and looks at the set with each command.
func TestTargets(t *testing.T) {
	dir := t.TempDir()
	src, set := filepath.Join(dir, "data"), filepath.Join(dir, "set")
	write := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(src, name)
		testenv.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		testenv.NoError(t, os.WriteFile(file, data, 0o666))
	}
	encoded := func(m image.Image) []byte {
		var b bytes.Buffer
		testenv.NoError(t, png.Encode(&b, m))
		return b.Bytes()
	}
	size := image.Rect(0, 0, 40, 20)
	mask := image.NewGray(size)
	for i := range mask.Pix[:200] {
		mask.Pix[i] = 1
	}
	for _, name := range []string{"a", "b", "none"} {
		write("images/"+name+".png", encoded(image.NewRGBA(size)))
		write("masks/"+name+".png", encoded(mask))
	}
	write("masks/none.png", encoded(image.NewGray(image.Rect(0, 0, 20, 40))))
	write("images/empty.png", encoded(image.NewRGBA(size)))
	write("masks/empty.png", encoded(mask))
	for _, name := range []string{"a", "b", "none"} {
		write("labels/"+name+".txt", []byte("1 .5 .5 .5 .5\n0 .9 .5 .4 .5\n"))
	}
	write("classes.txt", []byte("cat\ndog\n"))
	out, diag, status := imgshard(t, "build", src, "-o", set, "--targets", "both", "--drop-empty")
	if status != 0 || !strings.Contains(out, "objects objects of 2 classes") || !strings.Contains(out, "1 image has no objects, and is left out: empty.png") ||
		!strings.Contains(out, "the mask has 20×40 pixels, and the image 40×20") || !strings.Contains(out, "2 boxes reach out of their images: a.png") {
		t.Fatal(out, diag)
	}
	if m, err := shard.ReadManifest(set); err != nil || m.Samples != 2 {
		t.Fatal(m, err)
	}
	if out, _, _ := imgshard(t, "ls", set, "--fields", "--json"); strings.Count(out, `"labels":[1,0]`) != 2 || !strings.Contains(out, `"mask":{"height":20,"width":40}`) {
		t.Error(out)
	}
	out, diag, status = imgshard(t, "stats", set, "--json")
	var st setStats
	if err := json.Unmarshal([]byte(out), &st); err != nil || status != 0 || st.Objects == nil || st.Objects.Count != 4 || st.Objects.PerImage.Median != 2 ||
		len(st.Objects.Classes) != 2 || st.Objects.Width.Max != 20 || len(st.Pixels) != 2 || st.Pixels[1].Share != 0.25 || st.Pixels[1].Class != "dog" {
		t.Errorf("%v %s %s", err, out, diag)
	}
	if out, _, _ := imgshard(t, "stats", set); !strings.Contains(out, "label 1 dog: 25.000 % of the pixels, in 2 images") || !strings.Contains(out, "width of a box") {
		t.Error(out)
	}
	plain, sheet := filepath.Join(dir, "plain"), filepath.Join(dir, "sheet.html")
	if out, diag, status := imgshard(t, "view", set, "-o", sheet, "--transform", "detection", "--draws", "2"); status != 0 {
		t.Error(out, diag)
	}
	if out, diag, status := imgshard(t, "build", src, "-o", plain, "--targets", "none"); status != 0 {
		t.Error(out, diag)
	}
	page, err := os.ReadFile(sheet)
	if err != nil || bytes.Count(page, []byte("<img ")) != 6 || bytes.Contains(page, []byte(`<span class="warn">`)) {
		t.Errorf("%d pictures, %v", bytes.Count(page, []byte("<img ")), err)
	}
	if _, diag, status := imgshard(t, "build", src, "-o", plain, "--force", "--encoding", "pixels"); status != 1 || !strings.Contains(diag, "leave the sizes to the transform") {
		t.Error(status, diag)
	}
	if _, diag, status := imgshard(t, "build", src, "-o", set, "--targets", "both"); status != 1 || !strings.Contains(diag, "built with other options") {
		t.Error(status, diag)
	}
	for _, flags := range [][]string{{"--targets", "all"}, {"--box-format", "yxyx"}} {
		if _, diag, status := imgshard(t, append([]string{"build", src, "-o", set}, flags...)...); status != 2 {
			t.Error(status, diag)
		}
	}
}
