package imgshard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestCopyOverADamagedSet brings the files that are damaged or missing, and no others.
func TestCopyOverADamagedSet(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	if _, diag, status := imgshard(t, "build", images, "-o", good, "--partitions", "2"); status != 0 {
		t.Fatal(diag)
	}
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
		testenv.NoError(t, os.CopyFS(bad, os.DirFS(good)))
		testenv.NoError(t, damage(filepath.Join(bad, name)))
		if out, diag, status := imgshard(t, "copy", good, bad); status != 0 || !strings.Contains(out, "1 file copied, 1 kept") {
			t.Errorf("%s: %q, %q, status %d", what, out, diag, status)
		}
		if got, err := os.ReadFile(filepath.Join(bad, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: the shard is another one, %v", what, err)
		}
		testenv.NoError(t, os.WriteFile(filepath.Join(bad, "manifest.json"), []byte("{"), 0o666))
		if _, diag, status := imgshard(t, "copy", good, bad); status != 1 || !strings.Contains(diag, "its manifest is damaged") {
			t.Errorf("over a damaged manifest: %q, status %d", diag, status)
		}
	}
}
