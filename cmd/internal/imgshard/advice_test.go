package imgshard

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestAdvisedCommands runs the commands that messages about unread files advise, where their tools are installed.
func TestAdvisedCommands(t *testing.T) {
	bin, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() // in which this test is imgshard
	if err := os.Symlink(bin, filepath.Join(path, "imgshard")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ tool, made, file, after string }{
		{"zstd", "tar c . | zstd -q", "x.tar.zst", ""},
		{"bzip2", "tar c . | bzip2", "x.tar.bz2", ""},
		{"xz", "tar c . | xz", "x.tar.xz", ""},
		{"jq", `printf '[{"path": "n01440764/%s", "label": "a"}]' $(ls n01440764 | head -n 1)`, "list.json", "imgshard build list.jsonl -o OUT"},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			testenv.Command(tc.tool).Path(t)
			dir := t.TempDir()
			sh := func(dir, command string) {
				t.Helper()
				cmd := exec.Command("sh", "-ec", command)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), roleEnv+"=advised")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
			if err := os.CopyFS(dir, os.DirFS(images)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), tc.file)
			sh(dir, tc.made+" > "+file)
			_, diag, status := imgshard(t, "build", file, "-o", filepath.Join(dir, "OUT"))
			advice := regexp.MustCompile(`(?:` + tc.tool + ` -dc FILE \|.*OUT|jq .*jsonl)`).FindString(diag)
			if status == 0 || advice == "" {
				t.Fatalf("status %d, %s", status, diag)
			}
			sh(dir, strings.ReplaceAll(advice, "FILE", file)+"\n"+tc.after)
			if _, diag, status := imgshard(t, "verify", filepath.Join(dir, "OUT")); status != 0 {
				t.Error(diag)
			}
		})
	}
}
