package remedy

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestRemediesHaveOneHome finds remedies outside the table: no message of package source and those below it names a flag or a command
// itself, except where it says what a flag is for.
func TestRemediesHaveOneHome(t *testing.T) {
	advice := regexp.MustCompile("[\"`].*(--[a-z]{2}|imgshard (build|index))")
	allowed := regexp.MustCompile(`^(Forms|Labels|Takes):|^"names by their|^\{opts\.|"--images names no folder"|"--label %s: |^imageKeyHint|^labelMember |tar --(sort|dereference)|is %s, which has no fields`)
	testenv.OK(t, fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "remedy/") {
			return err
		}
		text, err := os.ReadFile("../" + name)
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimSpace(line)
			testenv.Check(t, !advice.MatchString(line) || allowed.MatchString(line) || strings.HasPrefix(line, "//"),
				"%s:%d has a remedy of its own: %s", name, i+1, line)
		}
		return err
	}))
	table := testenv.Must(os.ReadFile("remedy.go"))(t)
	testenv.Equal(t, len(All()), len(regexp.MustCompile(`(?m)^\t\w+ += Remedy\{`).FindAll(table, -1)), "remedies in All")
	seen := make(map[string]bool)
	for _, r := range All() {
		testenv.Check(t, !seen[r.To], "two remedies are %q", r.To)
		seen[r.To] = true
	}
}

// TestText quotes paths as a shell needs it, and writes beside them.
func TestText(t *testing.T) {
	for _, tc := range []struct {
		remedies []Remedy
		inPlace  string
		want     string
	}{
		{[]Remedy{NoLabels, ForceClasses}, "", "; to take the images without labels, add --no-labels; to take it as it is, add --force-classes"},
		{[]Remedy{NoLabels}, "/d/a b", "\n  to take the images without labels:\n    imgshard index '/d/a b' -o '/d/a b-index' --no-labels\n  and then open the index"},
		{[]Remedy{Folder.With("DIR", "/d/a b"), Folder.With("DIR", "c")}, "", "\n  to take the folder that is meant:\n    imgshard build '/d/a b'\n    imgshard build c"},
		{[]Remedy{Folder.With("DIR", "s3://b/x")}, "", "\n  to take the folder that is meant:\n    imgshard build s3://b/x -o x-shards"},
		{[]Remedy{NoLabels}, "s3://b/x", "\n  to take the images without labels:\n    imgshard index s3://b/x -o x-index --no-labels\n  and then open the index"},
		{[]Remedy{Unzip.Of("/d/it's.zip", "/d/it's")}, "", "\n  to unpack it, and build its folder:\n    unzip -q '/d/it'\\''s.zip' -d '/d/it'\\''s'-unpacked && imgshard build '/d/it'\\''s'-unpacked"},
	} {
		testenv.Equal(t, Text(tc.remedies, tc.inPlace), tc.want, "remedies")
	}
	note := "2 boxes are empty; " + DropEmpty.String() + ", or not"
	testenv.Equal(t, InPlace(note, "/d/a b"), "2 boxes are empty; to leave out images without objects, "+
		"type imgshard index '/d/a b' -o '/d/a b-index' --drop-empty --class-order string and open the index, or not", "a note of images in place")
}

// Beside a dataset that cannot be written to, remedies write into the working folder.
func TestReadOnly(t *testing.T) {
	before := writable
	writable = func(folder string) bool { return folder != "/ro" }
	t.Cleanup(func() { writable = before })
	for _, tc := range []struct {
		remedy  Remedy
		inPlace string
		want    string
	}{
		{NoLabels, "/ro/it's", `imgshard index '/ro/it'\''s' -o 'it'\''s-index' --no-labels`},
		{Folder.With("DIR", "/ro/x"), "", "imgshard build /ro/x -o x-shards"},
		{Untar.Of("/ro/x.tar", "/ro/x"), "", "mkdir x-unpacked && tar xf /ro/x.tar -C x-unpacked && imgshard build x-unpacked"},
		{Header.Of("/ro/l.csv", "/ro/l"), "", "(echo path,label; cat /ro/l.csv) > l-list.csv && imgshard build l-list.csv --images /ro"},
		{COCOLabels.Of("/ro/l.json", "/ro/l"), "", "/ro/l.json > l.jsonl && imgshard build l.jsonl --images FOLDER"},
		{Header.Of("/rw/l.csv", "/rw/l"), "", "(echo path,label; cat /rw/l.csv) > /rw/l-list.csv && imgshard build /rw/l-list.csv"},
	} {
		got := Text([]Remedy{tc.remedy}, tc.inPlace)
		testenv.Check(t, strings.Contains(got+"\n", tc.want+"\n"), "%q, want %q", got, tc.want)
	}
}
