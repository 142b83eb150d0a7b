package imgshard

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// TestRepack makes pixels sets by build and by repack, and checks what their manifests keep.
func TestRepack(t *testing.T) {
	parent := t.TempDir()
	original, small := filepath.Join(parent, "jpeg"), filepath.Join(parent, "pixels")
	succeed(t, "build", images, "-o", original, "--partitions", "2", "--seed", "3")
	flags := []string{"--resize", "8x9", "--interpolation", "bicubic", "--resampler", "pillow-12", "--codec", "lz4"}
	testenv.Contains(t, succeed(t, append([]string{"repack", original, "-o", small}, flags...)...), "pixels")
	a, errA := shard.ReadManifest(original)
	b, errB := shard.ReadManifest(small)
	if errA != nil || errB != nil || a.Fingerprint != b.Fingerprint || b.Partitions != 2 || b.Seed != 3 {
		t.Fatalf("%v, %v: %d partitions, seed %d", errA, errB, b.Partitions, b.Seed)
	}
	testenv.Contains(t, strings.Join(strings.Fields(string(b.Encoding.Params)), ""),
		`"codec":"lz4"`, `"resize":"8x9"`, `"interpolation":"bicubic"`, `"resampler":"pillow-12"`)
	succeed(t, "verify", small)
}
