package imgshard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
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
	if m, err := shard.ReadManifest(set); err != nil || m.Samples != 5 || len(m.Fields) != 5 {
		t.Fatalf("%+v, %v", m, err)
	}
	const want = `{"score":0.5,"caption":"a caption","box":[1,-2],"gap":"<\t>","raw":"AH8="}`
	if text := succeed(t, "ls", set, "--fields"); strings.Count(text, "\t"+want+"\n") != 5 {
		t.Error(text)
	}
	for line := range strings.Lines(succeed(t, "ls", set, "--fields", "--json")) {
		var one struct{ Fields json.RawMessage }
		if err := json.Unmarshal([]byte(line), &one); err != nil || string(one.Fields) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
	for field, want := range map[string]string{"score": "0.5\n", "caption": "a caption", "box": "[1,-2]\n", "gap": `"<\t>"`, "raw": "\x00\x7f"} {
		if got := succeed(t, "cat", set, "3", "--field", field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	says(t, 1, `no field "colour": the set has [score float32 caption text box int64[2]`, "cat", set, "3", "--field", "colour")
	if text, _, _ := imgshard(t, "ls", trainSet, "--fields"); strings.Count(text, "\t{}\n") != 5 {
		t.Error(text)
	}
	succeed(t, "verify", set, "--images")
	for _, flag := range []string{"caption", "caption=txt:words", "=txt"} {
		says(t, 2, "", "build", filepath.Join(src, "train.jsonl"), "-o", set, "--field", flag)
	}
}
