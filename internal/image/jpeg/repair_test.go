package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// anyOf returns the offset of one of the bytes of a scan.
func anyOf(rnd *rand.Rand, data []byte, scan int) int { return scan + rnd.IntN(len(data)-scan) }

// damages are ways in which files come to harm. Each is given the file and where its first scan's data start.
var damages = map[string]func(rnd *rand.Rand, data []byte, scan int) []byte{
	"bits flipped": func(rnd *rand.Rand, data []byte, scan int) []byte {
		for range 1 + rnd.IntN(3) {
			data[anyOf(rnd, data, scan)] ^= 1 << rnd.IntN(8)
		}
		return data
	},
	"bits flipped anywhere": func(rnd *rand.Rand, data []byte, _ int) []byte {
		for range 1 + rnd.IntN(2) {
			data[rnd.IntN(len(data))] ^= 1 << rnd.IntN(8)
		}
		return data
	},
	"bytes lost": func(rnd *rand.Rand, data []byte, scan int) []byte {
		at := anyOf(rnd, data, scan)
		return slices.Delete(data, at, min(at+1+rnd.IntN(40), len(data)))
	},
	"bytes inserted": func(rnd *rand.Rand, data []byte, scan int) []byte {
		extra := make([]byte, 1+rnd.IntN(20))
		for i := range extra {
			extra[i] = byte(rnd.Uint32())
		}
		return slices.Insert(data, anyOf(rnd, data, scan), extra...)
	},
	"marker inserted": func(rnd *rand.Rand, data []byte, scan int) []byte {
		marker := byte(rnd.Uint32())
		if rnd.IntN(2) == 0 {
			marker = markerRST0 + marker&7
		}
		return slices.Insert(data, anyOf(rnd, data, scan), 0xff, marker)
	},
	"fill bytes in the data": func(rnd *rand.Rand, data []byte, scan int) []byte {
		for at := anyOf(rnd, data, scan); ; at++ {
			if at = at + max(0, bytes.Index(data[min(at, len(data)):], []byte{0xff, 0})); at+1 >= len(data) || data[at] != 0xff || data[at+1] != 0 {
				return data
			}
			if rnd.IntN(2) == 0 {
				data[at-1] = 0xff
			} else {
				data = slices.Insert(data, at, 0xff)
				at++
			}
			if rnd.IntN(3) == 0 {
				return data
			}
			at += rnd.IntN(200)
		}
	},
	"cut, with EOI": func(rnd *rand.Rand, data []byte, scan int) []byte {
		return append(data[:anyOf(rnd, data, scan)], 0xff, markerEOI)
	},
	"tail of zeros": func(rnd *rand.Rand, data []byte, scan int) []byte {
		at := anyOf(rnd, data, scan)
		clear(data[at:])
		return append(data, make([]byte, rnd.IntN(3)*(len(data)-at))...)
	},
	"zeros inside": func(rnd *rand.Rand, data []byte, scan int) []byte {
		at := anyOf(rnd, data, scan)
		clear(data[at:min(at+1+rnd.IntN(300), len(data))])
		return data
	},
	"EOI gone, noise instead": func(rnd *rand.Rand, data []byte, _ int) []byte {
		data = data[:len(data)-2]
		for range rnd.IntN(24) {
			data = append(data, byte(rnd.IntN(255)))
		}
		return data
	},
	"segment repeated": func(rnd *rand.Rand, data []byte, _ int) []byte {
		segments := segmentsOf(data)
		i := rnd.IntN(len(segments))
		return bytes.Join(slices.Insert(segments, i, segments[rnd.IntN(len(segments))]), nil)
	},
	"segment lost": func(rnd *rand.Rand, data []byte, _ int) []byte {
		segments := segmentsOf(data)
		i := rnd.IntN(len(segments))
		return bytes.Join(slices.Delete(segments, i, i+1), nil)
	},
	"segments swapped": func(rnd *rand.Rand, data []byte, _ int) []byte {
		segments := segmentsOf(data)
		i, j := rnd.IntN(len(segments)), rnd.IntN(len(segments))
		segments[i], segments[j] = segments[j], segments[i]
		return bytes.Join(segments, nil)
	},
}

// longFiles returns the golden files, some that are long enough for libjpeg's fast Huffman decoder, which it leaves near the
// end of its input, and photographs if there are any.
func longFiles(t testing.TB, py *pillow) (files [][]byte) {
	files = goldenData(t)
	path := filepath.Join(t.TempDir(), "whole.jpg")
	for i, mode := range []string{"RGB", "RGB", "L", "CMYK"} {
		for progressive := range 2 {
			py.make(t, path, image.Pt(230, 170), mode, 80+5*i, 2*(i%2), progressive, i)
			files = append(files, readFile(t, path))
		}
	}
	if os.Getenv("IMGFEED_TEST_IMAGES") != "" { // longer than the 64 KB that Pillow reads at a time, some of them
		photos := photographs(t)
		for _, path := range photos[:min(20, len(photos))] {
			files = append(files, readFile(t, path))
		}
	}
	return append(files, synthetic(t, 400, 300))
}

// TestDamagedGolden harms the golden files and compares with Pillow, or in a quick run with the checksums of what was Pillow's.
func TestDamagedGolden(t *testing.T) {
	t.Parallel()
	answers := pillowtest.Load(t, "testdata/damaged.crc", *update)
	rnd := rand.New(rand.NewPCG(12, 13))
	files := goldenData(t)
	var all []*mutated
	decoders, k := newDecoders(), 0
	for _, kind := range slices.Sorted(maps.Keys(damages)) {
		for i := range 40 {
			data := bytes.Clone(files[rnd.IntN(len(files))])
			data = damages[kind](rnd, data, scanOf(data))
			for _, d := range decoders {
				ours := decodeMutated(t, d, fmt.Sprintf("%s, %d", kind, i), data)
				testenv.OK(t, answers.Compare(k, ours.pix, ours.pix), "%s", ours.name)
				all = append(all, ours)
			}
			k++
		}
	}
	if answers.Live {
		startPillow(t).compare(t, all, make(map[outcome]int))
	}
}
