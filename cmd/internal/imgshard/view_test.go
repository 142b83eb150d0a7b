package imgshard

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// picturesOf decodes the pictures in a page.
func picturesOf(t *testing.T, page string) []image.Image {
	t.Helper()
	var list []image.Image
	for _, m := range regexp.MustCompile(`src="data:image/(?:jpeg|png);base64,([^"]+)"`).FindAllStringSubmatch(page, -1) {
		data := testenv.Must(base64.StdEncoding.DecodeString(m[1]))(t)
		img, _, err := image.Decode(bytes.NewReader(data))
		testenv.OK(t, err)
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
		n := strings.Count(page, "<figure")
		testenv.Check(t, n == tt.want, "%v: %d figures, want %d", tt.args, n, tt.want)
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
	_, err := os.Stat("sheet.html")
	testenv.Check(t, err != nil, "a sheet was left behind")
}
