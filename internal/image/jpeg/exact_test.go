package jpeg

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// decodeRegion decodes a region of a file to a new slice. The bytes around the region's rows are checked to be left alone.
func decodeRegion(d *Decoder, data, index []byte, r image.Rectangle) ([]byte, error) {
	if _, err := d.Reset(data, index); err != nil {
		return nil, err
	}
	const gap, mark = 100, 0xa5 // more than the longest vector
	stride := r.Dx()*3 + gap
	dst := bytes.Repeat([]byte{mark}, stride*r.Dy())
	if err := d.Decode(dst, stride, r); err != nil {
		return nil, err
	}
	pix := make([]byte, 0, r.Dx()*r.Dy()*3)
	for row := dst; len(row) > 0; row = row[stride:] {
		pix = append(pix, row[:stride-gap]...)
		for _, b := range row[stride-gap : stride] {
			if b != mark {
				return nil, fmt.Errorf("bytes after a row of region %v were written", r)
			}
		}
	}
	return pix, nil
}

// cut returns a region of an image's RGB pixels.
func cut(pix []byte, width int, r image.Rectangle) []byte {
	var out []byte
	for y := r.Min.Y; y < r.Max.Y; y++ {
		out = append(out, pix[(y*width+r.Min.X)*3:(y*width+r.Max.X)*3]...)
	}
	return out
}

func randomRegion(rnd *rand.Rand, w, h int) image.Rectangle {
	x0, y0 := rnd.IntN(w), rnd.IntN(h)
	return image.Rect(x0, y0, x0+1+rnd.IntN(w-x0), y0+1+rnd.IntN(h-y0))
}

// newDecoders returns a decoder for each level.
func newDecoders() (decoders []*Decoder) {
	for _, level := range kernel.Available() {
		decoders = append(decoders, New(level))
	}
	return decoders
}

// compareWith decodes a file with every decoder, whole and in some random regions, with and without index, and compares
// with the pixels given. It also takes the file apart, and makes it again. It returns how many decodes it compared.
func compareWith(t testing.TB, decoders []*Decoder, rnd *rand.Rand, name string, data, want []byte, size image.Point) int {
	t.Helper()
	index, config, err := decoders[0].AppendIndex(nil, data)
	testenv.Require(t, err == nil && config.Width == size.X && config.Height == size.Y,
		"%s: AppendIndex: %+v, %v; want size %v", name, config, err, size)
	testenv.Equal(t, testenv.Must(DecodeConfig(data))(t), config, "%s: DecodeConfig, and by AppendIndex", name)
	for i, d := range decoders {
		for j := range 4 {
			if i == 0 && j%3 == 0 {
				continue // the generic decoder is slow: it decodes the whole without index, and a region with
			}
			r := image.Rectangle{Max: size}
			if j >= 2 {
				r = randomRegion(rnd, size.X, size.Y)
			}
			var use []byte
			if j%2 == 0 {
				use = index
			}
			got := testenv.Must(decodeRegion(d, data, use, r))(t)
			testenv.Same(t, got, cut(want, size.X, r), "%s: level %v, region %v, index %t", name, kernel.Level(i), r, use != nil)
		}
	}
	checkSplitWhole(t, decoders, rnd, name, data, config)
	return 4*len(decoders) - 2
}

// TestPhotographs compares full decodes and random regions of photographs with Pillow.
func TestPhotographs(t *testing.T) {
	t.Parallel()
	files := photographs(t)
	py := startPillow(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	decoders := newDecoders()
	images, decodes := 0, 0
	for _, file := range files {
		size, want, refused := py.decode(t, file)
		testenv.Require(t, refused == nil, "%s: Pillow: %v", file, refused)
		decodes += compareWith(t, decoders, rnd, filepath.Base(file), readFile(t, file), want, size)
		images++
	}
	fmt.Printf("jpeg: %d of %d photographs identical with Pillow in %d decodes at levels %v\n", images, len(files), decodes, kernel.Available())
}

// TestAllSizes compares pictures of every size from 1×1 to 70×70, their kind changing from one to the next; with
// IMGFEED_EXHAUSTIVE set, of every kind.
func TestAllSizes(t *testing.T) {
	t.Parallel()
	py := startPillow(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	decoders := newDecoders()
	path := filepath.Join(t.TempDir(), "picture.jpg")
	kinds := []struct {
		mode                     string
		subsampling, progressive int
	}{{"RGB", 2, 0}, {"RGB", 1, 0}, {"RGB", 0, 0}, {"L", 0, 0}, {"RGB", 2, 1}, {"CMYK", 0, 0}, {"RGB", 1, 1}}
	images, decodes := 0, 0
	for w := 1; w <= 70; w++ {
		for h := 1; h <= 70; h++ {
			seed := w*70 + h
			for k, kind := range kinds {
				if os.Getenv("IMGFEED_EXHAUSTIVE") == "" && seed%len(kinds) != k {
					continue
				}
				size := image.Pt(w, h)
				want := py.make(t, path, size, kind.mode, 1+seed*37%100, kind.subsampling, kind.progressive, seed)
				decodes += compareWith(t, decoders, rnd, fmt.Sprintf("%v %+v", size, kind), readFile(t, path), want, size)
				images++
			}
		}
	}
	fmt.Printf("jpeg: %d pictures of 1×1 to 70×70 identical with Pillow in %d decodes\n", images, decodes)
}

// A variant is a way to encode a picture with the tools of libjpeg-turbo and ImageMagick.
type variant struct {
	name     string
	tool     *testenv.Program
	options  []string
	jpegtran []string // how jpegtran rewrites the file, without decoding its blocks; or none
}

// variants returns what the matrix consists of.
func variants() (all []variant) {
	cjpeg := func(name string, options ...string) {
		all = append(all, variant{name: name, tool: testenv.Cjpeg, options: options})
	}
	samplings := []string{"1x1", "2x1", "2x2", "1x2", "4x1", "4x2", "1x4", "2x4", "3x1", "1x3", "3x2", "4x1,2x1,1x1", "2x2,2x1,1x2",
		"2x2,1x2,2x1", "1x1,2x2,1x1", "1x1,1x1,2x1", "2x1,1x2,1x1", "4x1,1x1,2x1", "1x4,1x2,1x1", "3x1,1x1,3x1"}
	for i, s := range samplings {
		cjpeg("baseline-"+s, "-quality", fmt.Sprint(95-4*i), "-sample", s)
		cjpeg("progressive-"+s, "-progressive", "-quality", fmt.Sprint(20+4*i), "-sample", s)
		cjpeg("optimised-restart-"+s, "-optimize", "-restart", fmt.Sprint(i/4+1)+[]string{"B", ""}[i%2], "-sample", s)
		cjpeg("progressive-restart-"+s, "-progressive", "-restart", "3B", "-sample", s)
	}
	for q := 1; q <= 100; q += 3 {
		cjpeg(fmt.Sprintf("quality-%d", q), "-quality", fmt.Sprint(q), "-sample", samplings[q%3])
	}
	cjpeg("grey", "-grayscale")
	cjpeg("grey-progressive", "-grayscale", "-progressive")
	cjpeg("grey-restart", "-grayscale", "-restart", "5B")
	cjpeg("rgb", "-rgb")
	cjpeg("rgb-subsampled", "-rgb", "-sample", "1x1,2x2,1x1")
	cjpeg("scans", "-scans", filepath.Join("testdata", "scans.txt"), "-sample", "2x2")
	cjpeg("scans-partly-interleaved", "-scans", filepath.Join("testdata", "scans-mixed.txt"), "-sample", "2x1")
	magick := func(name string, options ...string) {
		all = append(all, variant{name: name, tool: testenv.ImageMagick, options: options})
	}
	magick("magick-cmyk", "-colorspace", "CMYK")
	magick("magick-cmyk-progressive", "-colorspace", "CMYK", "-interlace", "JPEG", "-sampling-factor", "2x2")
	magick("magick-cmyk-subsampled", "-colorspace", "CMYK", "-sampling-factor", "2x1")
	magick("magick-grey", "-colorspace", "Gray")
	return all
}

// transformed returns variants that jpegtran rewrites. Its files are unlike an encoder's: the blocks beyond the picture's edges
// hold other samples than copies of the edge. Sampling factors and quantisation tables are transposed, and progressive files
// have restart intervals of one MCU.
func transformed() (all []variant) {
	for i, s := range []string{"1x1", "2x1", "2x2", "1x2", "4x1", "4x2", "1x4", "2x4", "3x2", "2x2,1x2,2x1", "1x1,2x2,1x1"} {
		for _, options := range []string{
			"-optimize", "-progressive", "-restart 1", "-restart 1B", "-optimize -restart 3B", "-progressive -restart 1",
			"-progressive -restart 1B", "-crop 40x50+9+7", "-crop 61x49+40+22 -restart 1B", "-crop 40x50+9+7 -progressive",
			"-flip horizontal", "-flip horizontal -trim", "-transpose", "-rotate 90 -trim -restart 1",
		} {
			cjpeg := []string{"-quality", fmt.Sprint(40 + 5*i), "-sample", s}
			all = append(all, variant{s + " " + options, testenv.Cjpeg, cjpeg, strings.Fields(options)})
		}
	}
	return all
}

// encode runs a variant's tool on a picture. Without the tool it returns nil.
func (v *variant) encode(t testing.TB, ppm string) []byte {
	t.Helper()
	path := v.tool.Find()
	if path == "" {
		return nil
	}
	args := slices.Concat(v.options, []string{ppm})
	if v.tool == testenv.ImageMagick {
		args = slices.Concat([]string{ppm}, v.options, []string{"jpg:-"})
	}
	data, err := exec.Command(path, args...).Output()
	testenv.OK(t, err, "%s: %s %v", v.name, path, args)
	if v.jpegtran != nil {
		cmd := exec.Command(testenv.Jpegtran.Path(t), v.jpegtran...)
		cmd.Stdin = bytes.NewReader(data)
		data, err = cmd.Output()
		testenv.Require(t, err == nil, "%s: %v", v.name, err)
	}
	return data
}

// writePPM writes a picture of smooth shapes and noise.
func writePPM(t testing.TB, path string, size image.Point, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 5))
	pix := []byte(fmt.Sprintf("P6\n%d %d\n255\n", size.X, size.Y))
	for y := range size.Y {
		for x := range size.X {
			base := 128 + 90*math.Sin(float64(x*x+y*13)/97) + float64(y%23)
			for c := range 3 {
				pix = append(pix, byte(max(0, min(255, base*float64(3+c)/4+float64(rnd.IntN(40)*(x/16%3))))))
			}
		}
	}
	testenv.OK(t, os.WriteFile(path, pix, 0o644))
}

// TestMatrix compares every variant at several sizes with Pillow, and a few at the longest sides, where products of sizes are largest.
func TestMatrix(t *testing.T) {
	t.Parallel()
	py := startPillow(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	decoders := newDecoders()
	dir := t.TempDir()
	sizes := []image.Point{{1, 1}, {5, 3}, {16, 16}, {33, 17}, {70, 131}, {201, 97}, {MaxSide, 1}, {1, MaxSide}, {MaxSide, 3}, {5, MaxSide}}
	images, decodes := 0, 0
	missing := make(map[string]bool)
	for i, size := range sizes {
		ppm, path := filepath.Join(dir, "picture.ppm"), filepath.Join(dir, "picture.jpg")
		writePPM(t, ppm, size, uint64(i))
		all := variants()
		switch {
		case size == image.Pt(201, 97):
			all = append(all, transformed()...)
		case max(size.X, size.Y) == MaxSide:
			all = all[:12]
		}
		for _, v := range all {
			data := v.encode(t, ppm)
			if data == nil {
				missing[v.tool.String()] = true
				continue
			}
			testenv.OK(t, os.WriteFile(path, data, 0o644))
			size, want, refused := py.decode(t, path)
			testenv.Require(t, refused == nil, "%s %v: Pillow: %v", v.name, size, refused)
			decodes += compareWith(t, decoders, rnd, fmt.Sprintf("%s %v", v.name, size), data, want, size)
			images++
		}
	}
	fmt.Printf("jpeg: %d files identical with Pillow in %d decodes\n", images, decodes)
	if len(missing) > 0 {
		t.Skip(strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

// TestEveryRegion compares every region of small pictures with the full decode, which the tests above compare with Pillow.
func TestEveryRegion(t *testing.T) {
	t.Parallel()
	decoders := newDecoders()
	regions := 0
	for _, name := range []string{"baseline-2x2.jpg", "baseline-2x1.jpg", "baseline-1x2.jpg", "optimised-restart-2x2.jpg", "progressive-2x2.jpg", "baseline-3x2.jpg"} {
		data := golden(t, name)
		index, config := testenv.Must2(decoders[0].AppendIndex(nil, data))(t)
		full := testenv.Must(decodeRegion(decoders[0], data, nil, image.Rect(0, 0, config.Width, config.Height)))(t)
		n := 0
		for y0 := range config.Height {
			for y1 := y0 + 1; y1 <= config.Height; y1++ {
				for x0 := range config.Width {
					for x1 := x0 + 1; x1 <= config.Width; x1++ {
						if n++; n%23 > 0 && os.Getenv("IMGFEED_EXHAUSTIVE") == "" {
							continue
						}
						r := image.Rect(x0, y0, x1, y1)
						use := index
						if n&1 == 0 {
							use = nil
						}
						got := testenv.Must(decodeRegion(decoders[n%len(decoders)], data, use, r))(t)
						testenv.Same(t, got, cut(full, config.Width, r), "%s: region %v, index %t", name, r, use != nil)
						regions++
					}
				}
			}
		}
	}
	fmt.Printf("jpeg: %d regions of small pictures identical with the full decode\n", regions)
}

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
