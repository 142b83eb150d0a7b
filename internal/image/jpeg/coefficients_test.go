package jpeg

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/flate"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A recording is a QuadSource of what ReadCoefficients has given.
type recording struct {
	layout       Layout
	header, rest []byte
	quads        []Quad
	extents      []uint8
	next, x, x1  int
}

func (r *recording) batchesWide() int { return ceilDiv(r.layout.MCUsWide, batchMCUs) }

func (r *recording) Row(y, x0, x1 int) error {
	if x0%batchMCUs != 0 || x0 < 0 || x1 <= x0 || x1 > r.layout.MCUsWide || y < 0 || y >= r.layout.MCUsHigh {
		return fmt.Errorf("row %d of columns %d to %d", y, x0, x1)
	}
	r.x, r.x1 = x0, x1
	r.next = (y*r.batchesWide() + x0/batchMCUs) * r.layout.Quads
	return nil
}

func (r *recording) Batch(quads []*Quad, extents []uint8) error {
	if r.x >= r.x1 || len(quads) != r.layout.Quads || len(extents) != len(quads) {
		return fmt.Errorf("batch of %d quads at column %d of %d", len(quads), r.x, r.x1)
	}
	r.x += batchMCUs
	for i, q := range quads {
		if *q != (Quad{}) || extents[i] != 0 {
			return fmt.Errorf("a quad that is not zero")
		}
		*q, extents[i] = r.quads[r.next], r.extents[r.next]
		r.next++
	}
	return nil
}

// record reads and splits a file.
func record(d *Decoder, data []byte) (*recording, error) {
	r := new(recording)
	batches := 0
	_, err := d.ReadCoefficients(data, func(l Layout) { r.layout = l }, func(y, x int, quads []*Quad, extents []uint8) {
		if batches != y*r.batchesWide()+x/batchMCUs || len(quads) != r.layout.Quads {
			panic("batch out of order")
		}
		batches++
		for i, q := range quads {
			r.quads = append(r.quads, *q)
			r.extents = append(r.extents, extents[i])
		}
	})
	if err == nil {
		r.header, r.rest, err = d.AppendSplit(nil, nil)
	}
	return r, err
}

// rebuild makes the file again.
func (r *recording) rebuild(d *Decoder) ([]byte, error) {
	if _, err := d.ResetCoefficients(r.header, r); err != nil {
		return nil, err
	}
	return d.AppendFile(nil, r.rest)
}

// checkSplit compares regions decoded from a file's coefficients with the file's, then makes the file again. It returns the reason
// why that cannot be.
func checkSplit(t testing.TB, decoders []*Decoder, rnd *rand.Rand, name string, data []byte) error {
	t.Helper()
	r, err := record(decoders[0], data)
	if err != nil {
		return err
	}
	for _, d := range decoders {
		config := testenv.Must(DecodeConfig(data))(t)
		whole := image.Rect(0, 0, config.Width, config.Height)
		for _, region := range []image.Rectangle{whole, randomRegion(rnd, config.Width, config.Height)} {
			want, err := decodeRegion(d, data, nil, region)
			testenv.Require(t, err == nil && d.Damage() == nil, "%s: coefficients were read, but decoding says %v, damage %v", name, err, d.Damage())
			testenv.Same(t, testenv.Must(r.decode(d, region))(t), want, "%s: region %v from coefficients, not from the file", name, region)
		}
	}
	file, err := r.rebuild(decoders[0])
	if err == nil && !bytes.Equal(file, data) {
		err = errOtherwise
	}
	return err
}

// checkSplitWhole is checkSplit for a file without damage: only kinds whose coefficients are not read may be refused.
func checkSplitWhole(t testing.TB, decoders []*Decoder, rnd *rand.Rand, name string, data []byte, config Config) {
	t.Helper()
	err := checkSplit(t, decoders, rnd, name, data)
	_, refused := errors.AsType[*UnsupportedError](err)
	other := config.Progressive || config.Components == 4 || strings.Contains(name, "scans")
	testenv.Check(t, refused == other && (err == nil || refused), "%s: rebuilding from coefficients: error %v", name, err)
}

var errOtherwise = errors.New("the file comes out otherwise")

// decode decodes a region from the coefficients.
func (r *recording) decode(d *Decoder, region image.Rectangle) ([]byte, error) {
	if _, err := d.ResetCoefficients(r.header, r); err != nil {
		return nil, err
	}
	pix := make([]byte, region.Dx()*region.Dy()*3)
	return pix, d.Decode(pix, region.Dx()*3, region)
}

// TestSplitOdd takes files apart that are not quite as they should be, and those with much beside the scan: each comes out the same, or
// there is an error.
func TestSplitOdd(t *testing.T) {
	base, restart, rgb := golden(t, "baseline-2x2.jpg"), golden(t, "optimised-restart-2x2.jpg"), golden(t, "rgb.jpg")
	scan := bytes.Index(base, []byte{0xff, markerSOS}) + 14
	exif := append([]byte{0xff, markerAPP0 + 1, 0x40, 0}, bytes.Repeat([]byte("Exif\x00\x00II"), 0x3ffe/8+1)[:0x3ffe]...)
	whole := map[string][]byte{
		"EXIF":                             insert(base, markerDQT, exif...),
		"ICC profile":                      insert(base, markerSOF0, restDictionary[:2+0xc58]...),
		"trailing bytes":                   append(bytes.Clone(base), exif...),
		"no JFIF":                          without(base, markerAPP0),
		"JFIF decides":                     insert(base, markerDQT, adobeSegment(0)...),
		"Adobe decides":                    insert(without(base, markerAPP0), markerDQT, adobeSegment(0)...),
		"RGB by names":                     without(rgb, markerAPP14),
		"restarts":                         restart,
		"interval longer than the picture": insert(base, markerSOS, 0xff, markerDRI, 0, 4, 0xff, 0xff),
		"standard tables left out":         without(without(without(without(base, markerDHT), markerDHT), markerDHT), markerDHT),
		"restart marker before EOI":        insert(restart, markerEOI, 0xff, markerRST0+7),
		"fill bytes before EOI":            insert(base, markerEOI, 0xff, 0xff),
	}
	refused := map[string][]byte{
		"no EOI":          base[:len(base)-2],
		"half a scan":     base[:scan+40],
		"byte after it":   insert(base, markerEOI, 0x55),
		"progressive":     golden(t, "progressive-2x2.jpg"),
		"CMYK":            golden(t, "magick-cmyk.jpg"),
		"several scans":   golden(t, "scans.jpg"),
		"no code":         changed(base, scan+30, 0xff),
		"second scan too": slices.Concat(base[:len(base)-2], base[scan-14:]),
	}
	rnd := rand.New(rand.NewPCG(27, 28))
	decoders := newDecoders()
	for name, data := range whole {
		testenv.OK(t, checkSplit(t, decoders, rnd, name, data), "%s", name)
	}
	for name, data := range refused {
		testenv.Says(t, name, checkSplit(t, decoders, rnd, name, data), isOurs)
	}
	for _, odd := range slices.Concat(oddHeaders(t), oddScans(t)) {
		err := checkSplit(t, decoders, rnd, odd.name, odd.data)
		testenv.Check(t, err == nil || isOurs(err) || err == errOtherwise, "%s: error of type %T", odd.name, err)
	}
}

// TestSplitPadding clears more and more of a scan's last bits. While some of the padding is left, the file is refused; without any
// it comes out the same.
func TestSplitPadding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(29, 30))
	decoders := newDecoders()
	mixed, zeros := 0, 0
	for _, name := range []string{"baseline-1x1.jpg", "baseline-2x1.jpg", "baseline-2x2.jpg", "grey.jpg", "rgb.jpg"} {
		data := golden(t, name)
		last := bytes.LastIndex(data, []byte{0xff, markerEOI}) - 1
		for bits := 1; bits < 8 && data[last]>>(bits-1)&1 == 1; bits++ {
			err := checkSplit(t, decoders, rnd, name, changed(data, last, data[last]>>bits<<bits))
			if err == nil {
				zeros++
				break
			} else if !strings.Contains(err.Error(), "padding bits") {
				t.Fatalf("%s with %d zeros at the end: %v", name, bits, err)
			}
			mixed++
		}
	}
	testenv.Check(t, mixed != 0 && zeros != 0, "%d files with mixed padding, %d with zeros: one of each is wanted", mixed, zeros)
}

// TestListSymbols compares the kernels with the generic one.
func TestListSymbols(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q Quad
	for n := range 10_000 {
		clear(q[:])
		for range random.IntN(1 + n%2000) { // up to nearly all of them
			q[random.IntN(len(q))] = int16(random.Uint32()) >> random.IntN(16)
		}
		block := (*quadBlock)(unsafe.Pointer(&q[8*(n%4)]))
		var want symbolList
		count := listSymbolsGeneric(block, &want)
		for _, level := range kernel.Available() {
			var got symbolList
			k := byLevel[level]
			c := k.listSymbols(block, &got)
			same := slices.Equal(got.indices[:count], want.indices[:count]) && slices.Equal(got.zigzag[:1+count], want.zigzag[:1+count])
			testenv.Require(t, c == count && same, "%v: %d symbols %v at %v, want %d %v at %v",
				level, c, got.indices, got.zigzag, count, want.indices, want.zigzag)
		}
	}
}

// TestRestDictionary pins the dictionary, which is part of the format.
func TestRestDictionary(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256(restDictionary))
	testenv.Check(t, sum == "6fd648fdce01f749553dce2c2e6c10ef1285ecb05d59be1306889ef4b5a5e15a",
		"restDictionary has the hash %s: rests that were written before cannot be read", sum)
}

// TestCoefficientsNoAllocation checks that a decoder that has met an image decodes its coefficients without allocating.
func TestCoefficientsNoAllocation(t *testing.T) {
	data := golden(t, "optimised-restart-2x2.jpg")
	d := New(kernel.Active())
	r := testenv.Must(record(d, data))(t)
	dst := make([]byte, goldenSize.X*goldenSize.Y*3)
	testenv.NoAllocations(t, 20, func() {
		testenv.Must(d.ResetCoefficients(r.header, r))(t)
		testenv.OK(t, d.Decode(dst, goldenSize.X*3, image.Rectangle{Max: goldenSize}))
	}, "in the steady state")
}

// A noise is a QuadSource of any numbers.
type noise struct{ rnd *rand.Rand }

func (n *noise) Row(y, x0, x1 int) error { return nil }

func (n *noise) Batch(quads []*Quad, extents []uint8) error {
	for i, q := range quads {
		extents[i] = ExtentFull
		shift := n.rnd.IntN(17)
		for j := range q {
			q[j] = int16(n.rnd.Uint32()) >> shift
		}
	}
	return nil
}

// FuzzSplit gives headers and rests of any content, with coefficients of any size.
func FuzzSplit(f *testing.F) {
	seeder := New(kernel.Active())
	for _, data := range goldenData(f) {
		if r, err := record(seeder, data); err == nil {
			plain := testenv.Must(new(parts).inflateRest(r.rest))(f)
			f.Add(r.header, r.rest, false, uint64(1))
			f.Add(r.header, plain, true, uint64(2))
		}
	}
	decoders := newDecoders()
	f.Fuzz(func(t *testing.T, header, rest []byte, plain bool, seed uint64) {
		if plain {
			var b bytes.Buffer
			w := testenv.Must(flate.NewWriterDict(&b, 1, restDictionary))(t)
			_, _ = w.Write(rest)
			_ = w.Close()
			rest = b.Bytes()
		}
		var want []byte
		for i, d := range decoders {
			source := &noise{rand.New(rand.NewPCG(seed, 1))}
			config, err := d.ResetCoefficients(header, source)
			if err != nil {
				testenv.Require(t, isOurs(err), "ResetCoefficients: error of type %T", err)
				return
			}
			if config.Width*config.Height > 1<<16 {
				return
			}
			pix := make([]byte, config.Width*config.Height*3)
			testenv.OK(t, d.Decode(pix, config.Width*3, image.Rect(0, 0, config.Width, config.Height)))
			if i == 0 {
				want = pix
			}
			testenv.Same(t, pix, want, "level %d: other pixels than the generic level", i)
			testenv.Must(d.ResetCoefficients(header, source))(t)
			_, err = d.AppendFile(nil, rest)
			testenv.Require(t, err == nil || isOurs(err), "AppendFile: error of type %T", err)
		}
	})
}
