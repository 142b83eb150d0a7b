package jpeg

import (
	"bufio"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A pillow is a Python process that decodes files with Pillow.
type pillow struct {
	in  io.Writer
	out *bufio.Reader
}

// startPillow starts a Python that has Pillow, and skips the test without one.
func startPillow(t testing.TB) *pillow {
	t.Helper()
	in, out, _ := pillowtest.Start(t)
	p := &pillow{in, out}
	version := testenv.Must(p.out.ReadString('\n'))(t)
	t.Logf("comparing with %s", strings.TrimSpace(version))
	return p
}

// decode returns a file's size and RGB pixels, or Pillow's error.
func (p *pillow) decode(t testing.TB, path string) (size image.Point, pix []byte, refused error) {
	t.Helper()
	return p.ask(t, "open "+path)
}

// make saves a picture as Pillow encodes it, and returns what decode would.
func (p *pillow) make(t testing.TB, path string, size image.Point, mode string, quality, subsampling, progressive, seed int) []byte {
	t.Helper()
	_, pix, refused := p.ask(t, fmt.Sprintf("make %d %d %s %d %d %d %d %s", size.X, size.Y, mode, quality, subsampling, progressive, seed, path))
	testenv.Require(t, refused == nil, "Pillow cannot make %v %s: %v", size, mode, refused)
	return pix
}

func (p *pillow) ask(t testing.TB, request string) (size image.Point, pix []byte, refused error) {
	t.Helper()
	testenv.Must(fmt.Fprintln(p.in, request))(t)
	line := testenv.Must(p.out.ReadString('\n'))(t)
	if message, ok := strings.CutPrefix(line, "error "); ok {
		return size, nil, fmt.Errorf("%s", strings.TrimSpace(message))
	}
	testenv.Must(fmt.Sscan(line, &size.X, &size.Y))(t)
	pix = make([]byte, size.X*size.Y*3)
	testenv.Must(io.ReadFull(p.out, pix))(t)
	return size, pix, nil
}

// photographs returns the JPEG files of the folder $IMGFEED_TEST_IMAGES, and skips the test without any.
func photographs(t testing.TB) []string {
	t.Helper()
	dir := os.Getenv("IMGFEED_TEST_IMAGES")
	if dir == "" {
		t.Skip("not compared: set IMGFEED_TEST_IMAGES to a folder of photographs (*.JPEG)")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.JPEG"))
	testenv.Require(t, len(files) > 0, "no *.JPEG in IMGFEED_TEST_IMAGES=%s", dir)
	return files
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	return testenv.Must(os.ReadFile(path))(t)
}

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

// goldenData returns the content of the golden files, by their names' order.
func goldenData(t testing.TB) (files [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(goldenFiles(t))) {
		files = append(files, golden(t, name))
	}
	return files
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
				testenv.OK(t, err, "%s: level %d", name, i)
				testenv.Equal(t, fmt.Sprintf("%08x", crc32.ChecksumIEEE(pix)), want, "%s: level %d: pixels have the checksum", name, i)
			}
		}
		checkSplitWhole(t, decoders, rnd, name, data, config)
	}
}
