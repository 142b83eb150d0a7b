package imgshard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

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
	testenv.Require(t, errA == nil && errB == nil && a.Fingerprint == b.Fingerprint && b.Partitions == 2 && b.Seed == 3,
		"%v, %v: %d partitions, seed %d", errA, errB, b.Partitions, b.Seed)
	testenv.Contains(t, strings.Join(strings.Fields(string(b.Encoding.Params)), ""),
		`"codec":"lz4"`, `"resize":"8x9"`, `"interpolation":"bicubic"`, `"resampler":"pillow-12"`)
	succeed(t, "verify", small)
}

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
		got, err := os.ReadFile(filepath.Join(bad, name))
		testenv.Check(t, err == nil && string(got) == string(want), "%s: the shard is another one, %v", what, err)
		testenv.OK(t, os.WriteFile(filepath.Join(bad, "manifest.json"), []byte("{"), 0o666))
		says(t, 1, "its manifest is damaged", "copy", good, bad)
	}
}

// TestEncodingFlags gives command lines, and wants the encoding or the beginning of the error.
func TestEncodingFlags(t *testing.T) {
	for _, c := range []struct {
		args   string
		repack bool
		small  bool
		want   string
	}{
		{"", false, false, "original"},
		{"", false, true, "pixels (bitpack, resize none)"},
		{"", true, false, "pixels (bitpack, resize 256 bilinear, pillow-13)"},
		{"--encoding original", false, true, "original"},
		{"--encoding original", true, false, "original"},
		{"--codec zstd", false, true, "pixels (zstd, resize none)"},
		{"--resize 16", false, true, "pixels (bitpack, resize 16 bilinear, pillow-13)"},
		{"--encoding pixels", false, true, "pixels (bitpack, resize none)"},
		{"--resize max:500 --codec zstd", false, true, "pixels (zstd, resize max:500 bilinear, pillow-13)"},
		{"--encoding pixels --resampler pillow-12 --interpolation box", false, false, "pixels (bitpack, resize 256 box, pillow-12)"},
		{"--codec lz4", false, false, "--codec: for --encoding pixels; original stores the files' own bytes"},
		{"--encoding original --codec lz4 --resize 3", false, true, "--resize, --codec: for --encoding pixels"},
		{"--encoding jpeg", false, false, "--encoding jpeg: want original"},
		{"--resize big", true, false, "--resize \"big\": want 256"},
		{"--interpolation sharp", true, false, "--interpolation: "},
		{"--encoding pixels --resampler pillow-1", false, false, "--resampler: "},
	} {
		fl := pflag.NewFlagSet("build", pflag.ContinueOnError)
		var f packFlags
		f.registerEncoding(fl, c.repack)
		testenv.OK(t, fl.Parse(strings.Fields(c.args)))
		got := ""
		e, err := f.chooseEncoding(c.small)
		if err != nil {
			got = err.Error()
		} else {
			got = e.String()
		}
		testenv.Check(t, got == c.want || err != nil && strings.HasPrefix(got, c.want),
			"%q, repack %v, small %v: %s, want %s", c.args, c.repack, c.small, got, c.want)
	}
}
