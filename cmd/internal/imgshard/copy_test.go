package imgshard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
		if got, err := os.ReadFile(filepath.Join(bad, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: the shard is another one, %v", what, err)
		}
		testenv.OK(t, os.WriteFile(filepath.Join(bad, "manifest.json"), []byte("{"), 0o666))
		says(t, 1, "its manifest is damaged", "copy", good, bad)
	}
}
