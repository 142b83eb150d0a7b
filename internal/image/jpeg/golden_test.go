package jpeg

import (
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "make testdata/files and testdata/golden.txt anew with cjpeg, convert and Pillow")

// goldenSize fills several MCUs of each sampling, with odd remainders.
var goldenSize = image.Pt(37, 21)

// updateGolden writes a small file of each kind of variant, and the checksums of Pillow's pixels.
func updateGolden(t *testing.T) {
	py := startPillow(t)
	dir := filepath.Join("testdata", "files")
	testenv.OK(t, os.MkdirAll(dir, 0o755))
	ppm := filepath.Join(t.TempDir(), "picture.ppm")
	writePPM(t, ppm, goldenSize, 7)
	var lines strings.Builder
	for _, v := range variants() {
		keep := !strings.HasPrefix(v.name, "quality") && (!strings.Contains(v.name, ",") && !strings.Contains(v.name, "restart") || strings.Contains(v.name, "2x2"))
		if !keep {
			continue
		}
		path := filepath.Join(dir, v.name+".jpg")
		data := v.encode(t, ppm)
		testenv.Require(t, data != nil, "%v", v.tool)
		testenv.OK(t, os.WriteFile(path, data, 0o644))
		_, pix, refused := py.decode(t, path)
		testenv.Require(t, refused == nil, "%v", refused)
		fmt.Fprintf(&lines, "%08x %s\n", crc32.ChecksumIEEE(pix), v.name+".jpg")
	}
	testenv.OK(t, os.WriteFile(filepath.Join("testdata", "golden.txt"), []byte(lines.String()), 0o644))
}

// goldenFiles returns the names of testdata/golden.txt with their checksums.
func goldenFiles(t testing.TB) map[string]string {
	golden := map[string]string{}
	for line := range strings.Lines(string(readFile(t, filepath.Join("testdata", "golden.txt")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		golden[name] = sum
	}
	testenv.Require(t, len(golden) >= 20, "testdata/golden.txt names %d files only", len(golden))
	return golden
}

// TestGolden compares small files with the checksums of Pillow's pixels, where there is no Pillow, and takes them apart.
func TestGolden(t *testing.T) {
	if *update {
		updateGolden(t)
	}
	decoders, rnd := newDecoders(), rand.New(rand.NewPCG(21, 22))
	for name, want := range goldenFiles(t) {
		data := golden(t, name)
		var config Config
		for i, d := range decoders {
			index, fromHeader, err := d.AppendIndex(nil, data)
			testenv.OK(t, err, "%s: AppendIndex", name)
			config = fromHeader
			for _, use := range [][]byte{nil, index} {
				pix, err := decodeRegion(d, data, use, image.Rectangle{Max: goldenSize})
				if err != nil {
					t.Fatalf("%s: level %d: %v", name, i, err)
				}
				testenv.Equal(t, fmt.Sprintf("%08x", crc32.ChecksumIEEE(pix)), want, "%s: level %d: pixels have the checksum", name, i)
			}
		}
		checkSplitWhole(t, decoders, rnd, name, data, config)
	}
}
