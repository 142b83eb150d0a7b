package jpeg

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		checkAgreement(t, decoders, data, seed)
	})
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
