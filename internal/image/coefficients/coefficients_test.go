package coefficients

import (
	"bytes"
	"errors"
	"flag"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata anew")

// files returns the small files of package jpeg, noise, and those of IMGFEED_TEST_IMAGES.
func files(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	paths, err := filepath.Glob("../jpeg/testdata/files/*.jpg")
	testenv.Require(t, err == nil && len(paths) >= 20, "%v, %v", err, len(paths))
	paths = append(paths, "testdata/noise.jpg")
	if dir := os.Getenv("IMGFEED_TEST_IMAGES"); dir != "" {
		more, _ := filepath.Glob(filepath.Join(dir, "*.JPEG"))
		paths = append(paths, more...)
	}
	for _, path := range paths {
		all[filepath.Base(path)] = testenv.Must(os.ReadFile(path))(t)
	}
	return all
}

// regions returns the whole image, its centre, a narrow strip and its last pixel.
func regions(c jpeg.Config) []image.Rectangle {
	w, h := c.Width, c.Height
	return []image.Rectangle{image.Rect(0, 0, w, h), image.Rect(w/4, h/4, w-w/4, h-h/5), image.Rect(w/2, 0, w/2+1, h), image.Rect(w-1, h-1, w, h)}
}

// newDecoders returns a decoder for each level.
func newDecoders() (decoders []*Decoder) {
	for _, level := range kernel.Available() {
		decoders = append(decoders, NewDecoder(level))
	}
	return decoders
}

func decode(t testing.TB, decode func([]byte, int, image.Rectangle) error, r image.Rectangle) []byte {
	pix := make([]byte, 3*r.Dx()*r.Dy())
	testenv.OK(t, decode(pix, 3*r.Dx(), r))
	return pix
}

// TestSameAsFile compares the pixels and the file that a record gives with the file's, by all kernels.
func TestSameAsFile(t *testing.T) {
	e := NewEncoder(kernel.Active())
	decoders := newDecoders()
	reference := jpeg.New(kernel.Active())
	taken := 0
	bytesIn, bytesOut := 0, 0
	for name, data := range files(t) {
		record, config, err := e.Encode(nil, data)
		if err != nil {
			if _, _, err := reference.AppendIndex(nil, data); err == nil && reference.Damage() == nil && !config.Progressive && config.Components != 4 {
				t.Logf("%s: %v", name, err)
			}
			continue
		}
		taken++
		bytesIn, bytesOut = bytesIn+len(data), bytesOut+len(record)
		for _, r := range regions(config) {
			testenv.Must(reference.Reset(data, nil))(t)
			want := decode(t, reference.Decode, r)
			for i, d := range decoders {
				testenv.Must(d.Reset(record))(t)
				testenv.Same(t, decode(t, d.Decode, r), want, "%s: %v differs with kernels %v", name, r, kernel.Available()[i])
			}
		}
		for _, d := range decoders {
			testenv.Must(d.Reset(bytes.Clone(record)))(t) // without slack
			testenv.Same(t, testenv.Must(d.AppendFile(nil))(t), data, "%s: another file comes back", name)
		}
	}
	t.Logf("%d files of %d bytes in records of %d", taken, bytesIn, bytesOut)
	testenv.Check(t, taken >= 15, "%d files were taken", taken)
}

// noise makes a file whose coefficients are as large as can be, in a tile more than a row has.
func noise(t testing.TB) []byte { return testenv.Must(os.ReadFile("testdata/noise.jpg"))(t) }

// TestAfterDamage checks that a file that ends within a tile leaves nothing for the next one.
func TestAfterDamage(t *testing.T) {
	whole := noise(t)
	want, _ := testenv.Must2(NewEncoder(kernel.Active()).Encode(nil, whole))(t)
	e := NewEncoder(kernel.Active())
	damaged := bytes.Clone(whole)
	for i := len(damaged) / 2; i < len(damaged)-2; i++ { // bits that are not a code
		damaged[i] = 0xfe
	}
	_, _, err := e.Encode(nil, damaged)
	testenv.Require(t, err != nil, "a damaged file is taken")
	got, _ := testenv.Must2(e.Encode(nil, whole))(t)
	testenv.Same(t, got, want, "the record after a damaged file")
}

// TestNoise checks that noise, one of [files], has patches, high bytes of DC differences, and rows of two tiles.
func TestNoise(t *testing.T) {
	e := NewEncoder(kernel.Active())
	testenv.Must2(e.Encode(nil, noise(t)))(t)
	var patches, tiles int
	high := false
	for i := 0; i < len(e.entries); i += entryBytes {
		entry := readEntry(e.entries[i:])
		patches, high = patches+entry.patches, high || entry.high
		tiles++
	}
	testenv.Check(t, patches != 0 && high && tiles >= 2, "%d patches, high bytes %v, %d tiles: the file tests nothing", patches, high, tiles)
}

// TestListKernels compares what all kernels make of quads, sparse and full, with values around the ends of eight bits and beyond.
func TestListKernels(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	reference := NewEncoder(kernel.Generic)
	for range 200 {
		q := new(jpeg.Quad)
		for range random.IntN(400) {
			v := random.IntN(7) - 3
			switch random.IntN(40) {
			case 0:
				v = random.IntN(2001) - 1000
			case 1:
				v = (random.IntN(3)-1)*128 + v
			case 2:
				v *= 256
			}
			q[random.IntN(len(q))] = int16(v)
		}
		reference.tile = tileParts{}
		reference.addQuad(q, jpeg.ExtentFull)
		for _, level := range kernel.Available() {
			e := NewEncoder(level)
			e.addQuad(q, jpeg.ExtentFull)
			testenv.Require(t, reflect.DeepEqual(e.tile, reference.tile), "%v differs: %+v instead of %+v of %v", level, e.tile, reference.tile, q)
		}
	}
}

// TestGolden compares records with those that were made when the format was new. The Python tests read these too, with a reader that was
// written from docs/format/coefficients.md; the last one is the worked example there.
func TestGolden(t *testing.T) {
	const files = "../jpeg/testdata/files/"
	e := NewEncoder(kernel.Active())
	for _, file := range []string{files + "baseline-2x2.jpg", files + "baseline-1x1.jpg", files + "grey.jpg", "testdata/example.jpg"} {
		name := strings.TrimSuffix(filepath.Base(file), ".jpg")
		data := testenv.Must(os.ReadFile(file))(t)
		record, _ := testenv.Must2(e.Encode(nil, data))(t)
		path := filepath.Join("testdata", name+".coefficients")
		if *update {
			testenv.OK(t, os.WriteFile(path, record, 0o644))
		}
		want := testenv.Must(os.ReadFile(path))(t)
		testenv.Same(t, record, want, "%s: the record is not that of testdata", name)
		d := NewDecoder(kernel.Active())
		testenv.Must(d.Reset(want))(t)
		testenv.Same(t, testenv.Must(d.AppendFile(nil))(t), data, "%s: testdata gives another file", name)
	}
}

// TestKernels compares every kernel with the generic one on random input.
func TestKernels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n, n+SlackBytes)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	const quads = 40
	for _, level := range kernel.Available() {
		k := byLevel[level]
		codes, cells := random(quads), random(quads*32)
		masks, want := make([]pairMasks, quads), make([]pairMasks, quads)
		k.spread(masks, codes, withSlack(cells))
		generic.spread(want, codes, cells)
		for i := range want {
			testenv.Require(t, masks[i] == want[i], "%v: spread: %x, want %x", level, masks[i], want[i])
		}
		for more := range int8(2) {
			widths, planes := random(quads*widthsBytes), random(quads*bundleValues)
			got, want := make([]byte, quads*bundleValues), make([]byte, quads*bundleValues)
			k.unpack(got, widths, withSlack(planes), more)
			generic.unpack(want, widths, planes, more)
			testenv.Same(t, got, want, "%v: unpack differs", level)
		}
		for i := range masks {
			masks[i][0] &^= 0xffff
			if i%3 == 0 {
				masks[i][1+i%2] = 0
			}
		}
		values, firsts := random(quads*256), random(quads*firstValues)
		dcs := make([][4]int16, quads, quads+8)
		for i := range dcs {
			dcs[i] = [4]int16{int16(rng.Uint32()), int16(i), -1, int16(rng.Uint32())}
		}
		var got, expected [quads]*jpeg.Quad
		for i := range quads {
			got[i], expected[i] = new(jpeg.Quad), new(jpeg.Quad)
		}
		n, m := k.expand(got[:], masks, values, withSlack(firsts), dcs), generic.expand(expected[:], masks, values, firsts, dcs)
		for i := range quads {
			testenv.Require(t, *got[i] == *expected[i] && n == m, "%v: expand: quad %d differs; %d values, want %d", level, i, n, m)
		}
	}
}

// TestDamaged cuts and changes a record: each time there is an error of its own kind, or pixels.
func TestDamaged(t *testing.T) {
	e := NewEncoder(kernel.Active())
	record, config := testenv.Must2(e.Encode(nil, noise(t)))(t)
	rng := rand.New(rand.NewPCG(3, 4))
	d := NewDecoder(kernel.Active())
	pix := make([]byte, 3*config.Width*config.Height)
	try := func(record []byte) error {
		c, err := d.Reset(record)
		if err != nil || c.Width*c.Height > config.Width*config.Height {
			return err
		}
		if err := d.Decode(pix, 3*c.Width, image.Rect(0, 0, c.Width, c.Height)); err != nil {
			return err
		}
		if _, err := d.Reset(record); err != nil {
			return err
		}
		_, err = d.AppendFile(nil)
		return err
	}
	ours := func(err error) bool {
		return errors.As(err, new(*FormatError)) || errors.As(err, new(*jpeg.FormatError)) || errors.As(err, new(*jpeg.UnsupportedError)) ||
			errors.As(err, new(*jpeg.LimitError))
	}
	for range 300 {
		err := try(record[:rng.IntN(len(record))])
		testenv.Require(t, ours(err), "a part of a record: %v", err)
		b := bytes.Clone(record)
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		err = try(b)
		testenv.Require(t, err == nil || ours(err), "%v", err)
	}
	testenv.OK(t, try(record), "after the damaged ones")
}

// TestSteadyState checks that decoding allocates nothing.
func TestSteadyState(t *testing.T) {
	e := NewEncoder(kernel.Active())
	record, config := testenv.Must2(e.Encode(nil, noise(t)))(t)
	d := NewDecoder(kernel.Active())
	pix := make([]byte, 3*config.Width*config.Height)
	testenv.NoAllocations(t, 20, func() {
		testenv.Must(d.Reset(record))(t)
		testenv.OK(t, d.Decode(pix, 3*config.Width, image.Rect(0, 0, config.Width, config.Height)))
	}, "in the steady state")
}

// FuzzRecord decodes any bytes: by all kernels to the same pixels, or with an error.
func FuzzRecord(f *testing.F) {
	e := NewEncoder(kernel.Active())
	for _, data := range files(f) {
		if record, _, err := e.Encode(nil, data); err == nil && len(record) < 1<<12 {
			f.Add(bytes.Clone(record))
		}
	}
	decoders := newDecoders()
	f.Fuzz(func(t *testing.T, record []byte) {
		var want []byte
		var wantErr error
		for i, d := range decoders {
			c, err := d.Reset(record)
			if err != nil {
				return
			}
			if c.Width*c.Height > 1<<18 {
				return
			}
			pix := make([]byte, 3*c.Width*c.Height)
			err = d.Decode(pix, 3*c.Width, image.Rect(0, 0, c.Width, c.Height))
			if i == 0 {
				want, wantErr = pix, err
			} else if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(pix, want) {
				t.Fatalf("%v: %v, the generic kernels: %v", kernel.Available()[i], err, wantErr)
			}
			if _, err := d.Reset(record); err == nil {
				d.AppendFile(nil)
			}
		}
	})
}
