package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

func golden(t testing.TB, name string) []byte {
	return readFile(t, filepath.Join("testdata", "files", name))
}

// insert returns data with extra bytes before the first occurrence of a marker.
func insert(data []byte, marker byte, extra ...byte) []byte {
	i := bytes.Index(data, []byte{0xff, marker})
	return append(append(append([]byte(nil), data[:i]...), extra...), data[i:]...)
}

// An oddity is a file that is not quite as it should be.
type oddity struct {
	name string
	data []byte
	// whole says that nothing is missing but EOI: this package takes the file, and Pillow does if libjpeg has not happened to
	// read ahead too far.
	whole bool
}

// without returns data without the first segment of a marker.
func without(data []byte, marker byte) []byte {
	i := bytes.Index(data, []byte{0xff, marker})
	length := int(data[i+2])<<8 | int(data[i+3])
	return slices.Concat(data[:i], data[i+2+length:])
}

// changed returns data with one byte changed.
func changed(data []byte, at int, b byte) []byte {
	data = bytes.Clone(data)
	data[at] = b
	return data
}

// oddHeaders are files whose header is odd, or what stands before and after the scan.
func oddHeaders(t *testing.T) []oddity {
	base := golden(t, "baseline-2x2.jpg")
	scan := bytes.Index(base, []byte{0xff, markerSOS}) + 14
	sof := bytes.Index(base, []byte{0xff, markerSOF0})
	return []oddity{
		{"as it is", base, false},
		{"garbage after EOI", slices.Concat(base, []byte("garbage \xff\xd8\xff")), false},
		{"fill bytes before a marker", insert(base, markerDQT, 0xff, 0xff, 0xff), false},
		{"garbage before a marker", insert(base, markerSOF0, 1, 2, 3), false},
		{"stuffed byte before a marker", insert(base, markerSOF0, 0xff, 0), false},
		{"comment", insert(base, markerSOF0, 0xff, markerCOM, 0, 5, 'a', 'b', 'c'), false},
		{"comment of length 0", insert(base, markerSOF0, 0xff, markerCOM, 0, 0), false},
		{"APP2 of length 1", insert(base, markerSOF0, 0xff, markerAPP0+2, 0, 1), false},
		{"DNL", insert(base, markerSOS, 0xff, markerDNL, 0, 4, 0, 21), false},
		{"restart marker in the header", insert(base, markerSOF0, 0xff, markerRST0), false},
		{"no JFIF", without(base, markerAPP0), false},
		{"standard tables left out", without(without(without(without(base, markerDHT), markerDHT), markerDHT), markerDHT), false},
		{"no quantisation table", without(without(base, markerDQT), markerDQT), false},
		{"half a header", base[:scan/2], false},
		{"empty", nil, false},
		{"second SOI", insert(base, markerDQT, 0xff, markerSOI), false},
		{"meaningless marker", insert(base, markerSOF0, 0xff, 0x40), false},
		{"second frame header", insert(base, markerSOS, base[sof:sof+19]...), false},
		{"components in the order 1, 3, 2", changed(changed(base, scan-7, 3), scan-5, 2), false},
		{"components in the order 3, 2, 1", changed(changed(base, scan-9, 3), scan-5, 1), false},
		{"components in the order 2, 3, 1", changed(changed(changed(base, scan-9, 2), scan-7, 3), scan-5, 1), false},
		{"component 2 named twice", changed(base, scan-5, 2), false},
		{"height 0", changed(changed(base, sof+5, 0), sof+6, 0), false},
		{"12 bits", changed(base, sof+4, 12), false},
		{"sampling factor 0", changed(base, sof+11, 0x02), false},
		{"two components", changed(changed(base, sof+9, 2), sof+3, 14), false},
	}
}

// oddScans are files whose scans are odd, or how they end.
func oddScans(t *testing.T) []oddity {
	base := golden(t, "baseline-2x2.jpg")
	restart := golden(t, "optimised-restart-2x2.jpg")
	progressive := golden(t, "progressive-2x2.jpg")
	scan := bytes.Index(base, []byte{0xff, markerSOS}) + 14
	rst := bytes.Index(restart, []byte{0xff, markerRST0})
	eoi := []byte{0xff, markerEOI}
	adobe := adobeSegment(0) // RGB
	return []oddity{
		{"garbage before EOI", slices.Concat(base[:len(base)-2], []byte("garbage"), eoi), false},
		{"Adobe segment after the scan", slices.Concat(without(base, markerAPP0)[:len(base)-20], adobe, eoi), false},
		{"no EOI", base[:len(base)-2], true},
		{"half a scan", base[:scan+40], false},
		{"second scan", slices.Concat(base[:len(base)-2], base[scan-14:]), false},
		{"second scan, far after", slices.Concat(base[:len(base)-2], make([]byte, 70000), base[scan-14:]), false},
		{"early EOI", slices.Concat(base[:len(base)-60], eoi), false},
		{"early EOI, progressive", slices.Concat(progressive[:len(progressive)-40], eoi), false},
		{"wrong restart marker", changed(restart, rst+1, markerRST0+3), false},
		{"other interval", changed(restart, bytes.Index(restart, []byte{0xff, markerDRI})+5, 3), false},
	}
}

// TestOddities compares slightly malformed files with Pillow's verdict. Files that Pillow takes must give its pixels, also
// those that libjpeg invents with a warning. Files that it refuses must give an error.
func TestOddities(t *testing.T) {
	py := startPillow(t)
	for _, c := range slices.Concat(oddHeaders(t), oddScans(t), oddColours(t), oddSteps(t)) {
		path := filepath.Join(t.TempDir(), "odd.jpg")
		testenv.OK(t, os.WriteFile(path, c.data, 0o644))
		size, want, refused := py.decode(t, path)
		for i, d := range newDecoders() {
			c.check(t, i, d, size, want, refused)
		}
	}
}

// check compares what a decoder says of the file with Pillow's verdict.
func (c *oddity) check(t *testing.T, level int, d *Decoder, size image.Point, want []byte, refused error) {
	t.Helper()
	var pix []byte
	config, err := d.Reset(c.data, nil)
	if err == nil {
		pix, err = decodeRegion(d, c.data, nil, image.Rect(0, 0, config.Width, config.Height))
	}
	_, _, indexErr := d.AppendIndex(nil, c.data)
	switch {
	case (err == nil) != (indexErr == nil):
		t.Errorf("%s: level %d: Decode says %v, AppendIndex %v", c.name, level, err, indexErr)
	case refused != nil && err == nil && !c.whole:
		t.Errorf("%s: level %d: no error; Pillow says %v", c.name, level, refused)
	case refused == nil && err != nil:
		t.Errorf("%s: level %d: %v; Pillow takes it", c.name, level, err)
	case err == nil && refused == nil && (config.Width != size.X || config.Height != size.Y || !bytes.Equal(pix, want)):
		t.Errorf("%s: level %d: pixels differ from Pillow's", c.name, level)
	}
	testenv.Check(t, err == nil || isOurs(err), "%s: level %d: error of type %T", c.name, level, err)
}

func isOurs(err error) bool {
	return errors.As(err, new(*FormatError)) || errors.As(err, new(*UnsupportedError)) || errors.As(err, new(*LimitError))
}

// TestTruncated cuts files at every length: each must be refused, unless it is whole but for EOI, and the decoder must be as
// good as new afterwards.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"baseline-2x2.jpg", "optimised-restart-2x2.jpg", "progressive-2x2.jpg", "magick-cmyk.jpg"} {
		data := golden(t, name)
		for _, d := range newDecoders() {
			want := testenv.Must(decodeRegion(d, data, nil, image.Rectangle{Max: goldenSize}))(t)
			for n := range len(data) {
				_, config, err := d.AppendIndex(nil, data[:n])
				if n >= len(data)-2 && !config.Progressive {
					got, decodeErr := decodeRegion(d, data[:n], nil, image.Rectangle{Max: goldenSize})
					testenv.Require(t, err == nil && decodeErr == nil && bytes.Equal(got, want) && d.Damage() != nil,
						"%s without EOI: other pixels, or errors %v, %v, damage %v", name, err, decodeErr, d.Damage())
				} else if err == nil || !isOurs(err) {
					t.Fatalf("%s cut to %d of %d bytes: error %v", name, n, len(data), err)
				}
				if n%16 == 0 {
					_, _ = decodeRegion(d, data[:n], nil, image.Rectangle{Max: image.Pt(1, 1)})
					got := testenv.Must(decodeRegion(d, data, nil, image.Rectangle{Max: goldenSize}))(t)
					testenv.Same(t, got, want, "%s: the whole file after one of %d bytes", name, n)
				}
			}
		}
	}
}

// TestWrongIndex gives decoders indexes of other files and changed ones: the result is an error or the right pixels.
// TestForgedIndex makes the checksums good again.
func TestWrongIndex(t *testing.T) {
	data, other := golden(t, "baseline-2x2.jpg"), golden(t, "baseline-2x1.jpg")
	d := New(kernel.Active())
	index, _ := testenv.Must2(d.AppendIndex(nil, data))(t)
	foreign, _ := testenv.Must2(d.AppendIndex(nil, other))(t)
	r := image.Rect(3, 4, 30, 20)
	want := testenv.Must(decodeRegion(d, data, index, r))(t)
	testenv.Fails(decodeRegion(d, data, foreign, r))(t, "other data", "index of another file")
	for i := range index {
		b := index[i]
		for _, wrong := range [][]byte{index[:i], changed(index, i, b^1), changed(index, i, b^0x80), changed(index, i, ^b)} {
			got, err := decodeRegion(d, data, wrong, r)
			testenv.Check(t, (err != nil || bytes.Equal(got, want)) && (err == nil || isOurs(err)),
				"index %x: wrong pixels, or error %v", wrong, err)
		}
	}
}

// TestLongestBlocks decodes blocks of the most bits there can be past the end of a scan: the reader must stay within the buffer's slack.
func TestLongestBlocks(t *testing.T) {
	d := new(Decoder)
	long := huffmanSpec{present: true}
	long.counts[16] = 1
	long.symbols[0] = 0x0f // run 0, size 15
	testenv.OK(t, d.tables[0][0].build(&long, true))
	testenv.OK(t, d.tables[1][0].build(&long, false))
	d.tables[0][0].buildCodes(&long)
	d.tables[1][0].buildPairs(&long, &d.singles)
	d.batch = alignedQuads(mcuBlocksMax)
	d.scan.unstuff([]byte{0xff, markerEOI}, 0, 2, false, 0)
	var blocks [batchBlocksMax]plannedBlock
	for i := range blocks {
		q := i % mcuBlocksMax
		blocks[i] = plannedBlock{dc: &d.tables[0][0], ac: &d.tables[1][0], out: plannedOut(d, q), quad: uint32(q)}
	}
	var r bitReader
	var predictor [4]int32
	var extent [mcuBlocksMax]uint8
	r.seek(d.scan.bytes, 0)
	testenv.Require(t, r.decodeBlocks(blocks[:], &predictor, &extent, false), "the longest blocks were taken for invalid")
	used := r.position(d.scan.bytes)
	testenv.Equal(t, used, batchBlocksMax*(31+63*31), "the bits of the longest blocks")
	limit := (len(d.scan.bytes) - 8) * 8
	testenv.Check(t, used+64 <= limit, "the reader came to bit %d, and may load up to %d", used, limit)
}

// TestLimits checks that a small file cannot ask for much memory.
func TestLimits(t *testing.T) {
	for _, name := range []string{"baseline-2x2.jpg", "progressive-2x2.jpg"} {
		data := append([]byte(nil), golden(t, name)...)
		sof := bytes.Index(data, []byte{0xff, markerSOF0})
		if sof < 0 {
			sof = bytes.Index(data, []byte{0xff, markerSOF2})
		}
		binary.BigEndian.PutUint16(data[sof+5:], 20000)
		binary.BigEndian.PutUint16(data[sof+7:], 20000)
		var limit *LimitError
		_, err := DecodeConfig(data)
		testenv.Check(t, errors.As(err, &limit), "%s of 20000×20000 pixels: %v", name, err)
		binary.BigEndian.PutUint16(data[sof+5:], 10000)
		binary.BigEndian.PutUint16(data[sof+7:], 10000)
		d := new(Decoder)
		var format *FormatError
		_, _, err = d.AppendIndex(nil, data)
		testenv.Check(t, errors.As(err, &format), "%s of 10000×10000 pixels: %v", name, err)
		testenv.Equal(t, len(d.coefs.quads), 0, "%s: quads of coefficients for which room was made", name)
	}
}

// TestNoAllocation checks that a decoder that has met an image decodes it without allocating.
func TestNoAllocation(t *testing.T) {
	for _, name := range []string{"baseline-2x2.jpg", "progressive-2x2.jpg", "optimised-restart-2x2.jpg"} {
		data := golden(t, name)
		d := New(kernel.Active())
		index, _ := testenv.Must2(d.AppendIndex(nil, data))(t)
		dst := make([]byte, goldenSize.X*goldenSize.Y*3)
		testenv.NoAllocations(t, 20, func() {
			testenv.Must(d.Reset(data, index))(t)
			testenv.OK(t, d.Decode(dst, goldenSize.X*3, image.Rectangle{Max: goldenSize}))
		}, "%s", name)
	}
}

// adobeSegment is an APP14 segment with a colour transform.
func adobeSegment(transform byte) []byte {
	return append(append([]byte{0xff, markerAPP14, 0, 14}, "Adobe\x00\x64\x00\x00\x00\x00"...), transform)
}

// oddColours are files whose markers and component ids say differently what their colours are.
func oddColours(t *testing.T) (all []oddity) {
	for _, name := range []string{"baseline-1x1.jpg", "progressive-2x2.jpg", "magick-cmyk.jpg", "grey.jpg"} {
		data := golden(t, name)
		bare := data
		for _, m := range []byte{markerAPP0, markerAPP14} {
			if bytes.Contains(bare[:40], []byte{0xff, m}) {
				bare = without(bare, m)
			}
		}
		all = append(all, oddity{name + " without markers", bare, false})
		for _, transform := range []byte{0, 1, 2, 3, 255} {
			segment := adobeSegment(transform)
			all = append(all,
				oddity{fmt.Sprintf("%s, Adobe %d", name, transform), slices.Insert(bytes.Clone(bare), 2, segment...), false},
				oddity{fmt.Sprintf("%s, Adobe %d besides", name, transform), slices.Insert(bytes.Clone(data), 2, segment...), false})
		}
		short := append([]byte{0xff, markerAPP14, 0, 13}, adobeSegment(0)[4:15]...)
		all = append(all, oddity{name + ", Adobe cut short", slices.Insert(bytes.Clone(bare), 2, short...), false})
		if name != "baseline-1x1.jpg" {
			continue
		}
		for _, ids := range []string{"RGB", "rgb", "\x01\x22\x23", "\x00\x01\x02", "BGR"} {
			for _, from := range [][]byte{bare, data} {
				all = append(all, oddity{fmt.Sprintf("%s with ids %q", name, ids), withIDs(from, ids), false})
			}
		}
	}
	return all
}

// withIDs changes the ids of a file's three components.
func withIDs(data []byte, ids string) []byte {
	data = bytes.Clone(data)
	sof := bytes.Index(data, []byte{0xff, markerSOF0})
	sos := bytes.Index(data, []byte{0xff, markerSOS})
	for i := range 3 {
		data[sof+10+3*i], data[sos+5+2*i] = ids[i], ids[i]
	}
	return data
}

// oddSteps are files with quantisation steps that no encoder chooses: of 16 bits, and so large that products overflow.
func oddSteps(t *testing.T) (all []oddity) {
	rnd := rand.New(rand.NewPCG(30, 31))
	for _, name := range []string{"baseline-2x2.jpg", "baseline-1x1.jpg", "progressive-2x1.jpg", "grey.jpg", "optimised-restart-2x2.jpg"} {
		data := golden(t, name)
		for n := range 24 {
			changed, rest := []byte(nil), data
			for i := bytes.Index(rest, []byte{0xff, markerDQT}); i >= 0 && len(rest) > i+69; i = bytes.Index(rest, []byte{0xff, markerDQT}) {
				changed = append(append(changed, rest[:i]...), 0xff, markerDQT, 0, 131, 0x10|rest[i+4])
				for range 64 {
					step := rnd.Uint32() >> (16 + n%12)
					changed = append(changed, byte(step>>8), byte(step))
				}
				rest = rest[i+69:]
			}
			all = append(all, oddity{fmt.Sprintf("%s with wide steps, %d", name, n), append(changed, rest...), false})
		}
	}
	return all
}

func plannedOut(d *Decoder, q int) unsafe.Pointer { return unsafe.Pointer(&d.batch[q].quad[0]) }

// checkAgreement decodes data at every level, whole and in a region, with and without index and from coefficients, and fails unless
// all agree and all errors are of this package's types.
func checkAgreement(t *testing.T, decoders []*Decoder, data []byte, seed uint64) {
	config, err := DecodeConfig(data)
	if err != nil {
		testenv.Require(t, isOurs(err), "DecodeConfig: error of type %T", err)
		return
	}
	if config.Width*config.Height > 1<<18 {
		return
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	region := randomRegion(rnd, config.Width, config.Height)
	whole := image.Rect(0, 0, config.Width, config.Height)
	index, _, indexErr := decoders[0].AppendIndex(nil, data)
	testenv.Require(t, indexErr == nil || isOurs(indexErr), "AppendIndex: error of type %T", indexErr)
	var want []byte
	for i, d := range decoders {
		got, err := decodeRegion(d, data, nil, whole)
		testenv.Require(t, (err == nil) == (indexErr == nil), "level %d: decoding says %v, AppendIndex %v", i, err, indexErr)
		if err != nil {
			continue
		}
		if i == 0 {
			want = got
		}
		testenv.Same(t, got, want, "level %d", i)
		for _, use := range [][]byte{nil, index} {
			part := testenv.Must(decodeRegion(d, data, use, region))(t)
			testenv.Same(t, part, cut(want, config.Width, region), "level %d, region %v, index %t, not the whole image", i, region, use != nil)
		}
	}
	err = checkSplit(t, decoders, rnd, "changed file", data)
	testenv.Require(t, err == nil || isOurs(err) || err == errOtherwise, "rebuilding from coefficients: error of type %T", err)
}

// FuzzBytes changes whole files.
func FuzzBytes(f *testing.F) {
	for _, data := range goldenData(f) {
		f.Add(data, uint64(1))
		f.Add(append(data[:len(data)*3/4:len(data)*3/4], 0xff, markerEOI), uint64(2)) // which is repaired
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, uint64(len(data))))
			f.Add(changed(data, rnd.IntN(len(data)), byte(rnd.Uint32())), seed)
		}
	}
	decoders := newDecoders()
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) { checkAgreement(t, decoders, data, seed) })
}

// segmentsOf splits a file before each of its markers.
func segmentsOf(data []byte) (segments [][]byte) {
	start := 0
	for i := 1; i+1 < len(data); i++ {
		if data[i] == 0xff && data[i+1] != 0 && data[i+1] != 0xff {
			segments = append(segments, data[start:i])
			start = i
		}
	}
	return append(segments, data[start:])
}

// FuzzStructure takes files apart at their markers, and drops, repeats, swaps and changes the pieces, also with those of
// another file: what plain byte changes reach only after long.
func FuzzStructure(f *testing.F) {
	files := goldenData(f)
	rnd := rand.New(rand.NewPCG(8, 9))
	for range 400 {
		operations := make([]byte, 3*(1+rnd.IntN(4)))
		for j := range operations {
			operations[j] = byte(rnd.Uint32())
		}
		f.Add(rnd.Uint64(), operations)
	}
	decoders := newDecoders()
	f.Fuzz(func(t *testing.T, seed uint64, operations []byte) {
		checkAgreement(t, decoders, mutate(files, seed, operations), seed)
	})
}

// mutate applies operations of three bytes each (what, where, how) to one of the files.
func mutate(files [][]byte, seed uint64, operations []byte) []byte {
	segments := segmentsOf(files[seed%uint64(len(files))])
	foreign := segmentsOf(files[seed/64%uint64(len(files))])
	for ; len(operations) >= 3 && len(segments) > 1; operations = operations[3:] {
		i, how := int(operations[1])%len(segments), int(operations[2])
		switch operations[0] % 6 {
		case 0:
			segments = append(segments[:i:i], segments[i+1:]...)
		case 1:
			segments = append(segments[:i+1:i+1], segments[i:]...)
		case 2:
			j := how % len(segments)
			segments[i], segments[j] = segments[j], segments[i]
		case 3:
			segments[i] = foreign[how%len(foreign)]
		default:
			changed := append([]byte(nil), segments[i]...)
			at := how * 7 % len(changed)
			changed[at] ^= operations[1] ^ operations[0]
			segments[i] = changed
		}
	}
	return bytes.Join(segments, nil)
}

// compareTransforms runs every level's transform for blocks whose last coefficient is at the index last, and compares with
// the generic transform of all coefficients.
func compareTransforms(t *testing.T, decoders []*Decoder, q quad, quant *quad, last int) {
	t.Helper()
	for k := last + 1; k < 64; k++ {
		for block := range 4 {
			q[int(quadIndex[k])+block*8] = 0
		}
	}
	var want [8 * 40]byte
	all := q
	idctGeneric(&all, quant, want[:], 40)
	for i, d := range decoders {
		var out [8 * 40]byte
		in := q
		switch {
		case last == 0:
			d.kernels.idctDC(&in, quant, out[:], 40)
		case last < 10:
			d.kernels.idctLow(&in, quant, out[:], 40)
		default:
			d.kernels.idct(&in, quant, out[:], 40)
		}
		testenv.Require(t, in == (quad{}), "level %d: the coefficients are not cleared", i)
		testenv.Require(t, out == want, "level %d, last coefficient %d: other samples than the generic transform gives", i, last)
	}
}

// TestTransforms compares the transforms on random coefficients, of the sizes of real ones and of any.
func TestTransforms(t *testing.T) {
	decoders := newDecoders()
	rnd := rand.New(rand.NewPCG(12, 13))
	for i := range 20000 {
		var q, quant quad
		for j := range q {
			if rnd.IntN(4) == 0 {
				q[j] = int16(rnd.IntN(65536)-32768) >> (i % 16)
			}
			quant[j] = int16(1 + rnd.IntN(255)>>(i%8))
		}
		compareTransforms(t, decoders, q, &quant, rnd.IntN(64)>>(i%5))
	}
}
