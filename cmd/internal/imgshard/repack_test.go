package imgshard

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard"
)

// TestRepack makes pixels sets by build and by repack, and checks what their manifests keep.
func TestRepack(t *testing.T) {
	parent := t.TempDir()
	original, small := filepath.Join(parent, "jpeg"), filepath.Join(parent, "pixels")
	if _, diag, status := imgshard(t, "build", images, "-o", original, "--partitions", "2", "--seed", "3"); status != 0 {
		t.Fatal(diag)
	}
	out, diag, status := imgshard(t, "repack", original, "-o", small, "--resize", "8x9", "--interpolation", "bicubic", "--resampler", "pillow-12", "--codec", "lz4")
	if status != 0 || !strings.Contains(out, "pixels") {
		t.Fatalf("%q %q", out, diag)
	}
	a, errA := shard.ReadManifest(original)
	b, errB := shard.ReadManifest(small)
	if errA != nil || errB != nil || a.Fingerprint != b.Fingerprint || b.Partitions != 2 || b.Seed != 3 {
		t.Fatalf("%v, %v: %d partitions, seed %d", errA, errB, b.Partitions, b.Seed)
	}
	for _, want := range []string{`"codec":"lz4"`, `"resize":"8x9"`, `"interpolation":"bicubic"`, `"resampler":"pillow-12"`} {
		if got := strings.Join(strings.Fields(string(b.Encoding.Params)), ""); !strings.Contains(got, want) {
			t.Errorf("%s has no %s", got, want)
		}
	}
	if out, diag, status := imgshard(t, "verify", small); status != 0 {
		t.Errorf("%q %q", out, diag)
	}
}
