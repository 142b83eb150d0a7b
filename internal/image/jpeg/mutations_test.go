package jpeg

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// An outcome is what this package and Pillow make of one file.
type outcome string

const (
	samePixels   outcome = "the same pixels"
	sameRepaired outcome = "the same pixels, repaired as libjpeg does"
	bothRefuse   outcome = "refused by both"
	noEOI        outcome = "taken here, the image is whole but for its end marker; Pillow refuses it, or not, by how far libjpeg read ahead"
	pillowHeader outcome = "taken here, where Pillow's own reading of the header refuses what libjpeg takes"
	tooFewBytes  outcome = "refused here: so few bytes for so many blocks"
	tooLarge     outcome = "not compared: the header says more than 262,144 pixels"
	leftOut      outcome = "refused here: " // and what the UnsupportedError says

	otherPixels outcome = "OTHER PIXELS"
	onlyPillow  outcome = "REFUSED HERE ONLY"
	onlyHere    outcome = "TAKEN HERE ONLY"
)

// allowed reports whether the outcome is one that the package promises.
func (o outcome) allowed() bool { return o != otherPixels && o != onlyPillow && o != onlyHere }

// A mutated is a file with what this package makes of it.
type mutated struct {
	name         string
	data         []byte
	config       Config
	pix          []byte
	hash         string // as testdata/pillow.py has it
	err          error
	damaged, eoi bool
	sparse       bool // fewer bytes than an eighth of the blocks
}

// decodeMutated decodes a file whole, and a region of it, which must have the same pixels.
func decodeMutated(t testing.TB, d *Decoder, name string, data []byte) *mutated {
	t.Helper()
	m := &mutated{name: name, data: data}
	if m.config, m.err = DecodeConfig(data); m.err != nil || m.large() {
		return m
	}
	m.pix, m.err = decodeRegion(d, data, nil, image.Rect(0, 0, m.config.Width, m.config.Height))
	m.damaged, m.eoi = d.Damage() != nil, d.eoi
	m.sparse = d.blockCount()/8 > len(data)
	m.hash = fmt.Sprintf("%x", sha256.Sum256(m.pix))
	if m.err == nil {
		r := randomRegion(rand.New(rand.NewPCG(uint64(len(data)), 14)), m.config.Width, m.config.Height)
		part, err := decodeRegion(d, data, nil, r)
		testenv.Check(t, err == nil && bytes.Equal(part, cut(m.pix, m.config.Width, r)),
			"%s: region %v: other pixels than the whole image has, or error %v", name, r, err)
	}
	return m
}

// large reports whether the image is too large to be compared: a changed header may say anything.
func (m *mutated) large() bool { return m.config.Width*m.config.Height > 1<<18 }

// judge compares with Pillow's verdict.
func (m *mutated) judge(v verdict) outcome {
	unsupported, left := errors.AsType[*UnsupportedError](m.err)
	switch {
	case m.large() || v.refused != nil && strings.Contains(v.refused.Error(), "too many pixels to be judged"):
		return tooLarge
	case m.err != nil && v.refused != nil:
		return bothRefuse
	case left:
		return leftOut + outcome(unsupported.Msg)
	case m.err != nil && m.sparse:
		return tooFewBytes
	case m.err != nil:
		return onlyPillow
	case v.refused != nil && strings.HasPrefix(v.refused.Error(), "UnidentifiedImageError"):
		return pillowHeader
	case v.refused != nil && m.damaged && !m.eoi:
		return noEOI
	case v.refused != nil:
		return onlyHere
	case v.size != image.Pt(m.config.Width, m.config.Height) || m.hash != v.hash:
		return otherPixels
	case m.damaged:
		return sameRepaired
	}
	return samePixels
}

// A verdict is what Pillow makes of a file.
type verdict struct {
	size    image.Point
	hash    string
	refused error
}

// compare compares files with Pillow, counts the outcomes, and keeps the first file with an outcome that is not allowed.
func (p *pillow) compare(t testing.TB, files []*mutated, outcomes map[outcome]int) {
	t.Helper()
	request, all := []byte("judge"), []byte(nil)
	for _, m := range files {
		request, all = fmt.Append(request, " ", len(m.data)), append(all, m.data...)
	}
	testenv.Must(p.in.Write(slices.Concat(request, []byte("\n"), all)))(t)
	for _, m := range files {
		line := testenv.Must(p.out.ReadString('\n'))(t)
		var v verdict
		if message, ok := strings.CutPrefix(line, "error "); ok {
			v.refused = errors.New(strings.TrimSpace(message))
		} else if _, err := fmt.Sscan(line, &v.size.X, &v.size.Y, &v.hash); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o := m.judge(v)
		if outcomes[o]++; !o.allowed() {
			keep := filepath.Join(os.TempDir(), fmt.Sprintf("imgfeed-mutated-%d.jpg", os.Getpid()))
			_ = os.WriteFile(keep, m.data, 0o644)
			t.Fatalf("%s of %+v: %s: this package says %v, Pillow %v; the file is kept as %s", m.name, m.config, o, m.err, v.refused, keep)
		}
	}
}

// headerDamages are ways in which what stands before the scan comes to harm; damages mostly harms what follows.
var headerDamages = map[string]func(rnd *rand.Rand, data []byte, scan int) []byte{
	"byte of the header": func(rnd *rand.Rand, data []byte, scan int) []byte {
		data[rnd.IntN(scan)] = byte(rnd.Uint32())
		return data
	},
	"byte of the header by one": func(rnd *rand.Rand, data []byte, scan int) []byte {
		data[rnd.IntN(scan)] += byte(1 - 2*rnd.IntN(2))
		return data
	},
	"marker changed": func(rnd *rand.Rand, data []byte, _ int) []byte {
		at := 0
		for range 1 + rnd.IntN(12) {
			for at++; at+1 < len(data) && (data[at] != 0xff || data[at+1] == 0); at++ {
			}
			if at+1 >= len(data) {
				at = 0
			}
		}
		data[at+1] = 0xc0 + byte(rnd.IntN(64))
		return data
	},
	"cut": func(rnd *rand.Rand, data []byte, _ int) []byte { return data[:rnd.IntN(len(data))] },
}

// smallFiles returns files of at most 64×64 pixels of all kinds: by Pillow, and if there is a cjpeg by that.
func smallFiles(t testing.TB, py *pillow) (files [][]byte) {
	path := filepath.Join(t.TempDir(), "small")
	sizes := []image.Point{{1, 1}, {7, 5}, {8, 8}, {16, 16}, {17, 33}, {31, 9}, {33, 48}, {64, 64}}
	for i, size := range sizes {
		for j, mode := range []string{"L", "RGB", "RGB", "RGB", "CMYK"} {
			for progressive := range 2 {
				py.make(t, path, size, mode, 50+11*((i+j)%5), max(0, j-1)%3, progressive, i*10+j)
				files = append(files, readFile(t, path))
			}
		}
	}
	cjpeg := testenv.Cjpeg.Find()
	if cjpeg == "" {
		t.Logf("files with restarts are few: %s", testenv.Cjpeg)
		return files
	}
	for i, options := range []string{"-restart 1", "-restart 2B", "-restart 1B -optimize", "-sample 1x2", "-sample 4x1", "-sample 2x1,1x2,1x1", "-sample 2x2,2x1,1x2",
		"-grayscale -restart 3B", "-rgb", "-progressive -restart 2B", "-sample 1x1 -restart 5B", "-quality 3", "-quality 100 -dct int", "-arithmetic", "-targa"} {
		for _, size := range sizes[2:] {
			pix := py.make(t, path, size, "RGB", 90, 0, 0, i)
			testenv.OK(t, os.WriteFile(path, append([]byte(fmt.Sprintf("P6\n%d %d\n255\n", size.X, size.Y)), pix...), 0o644))
			if data, err := exec.Command(cjpeg, append(strings.Fields(options), path)...).Output(); err == nil {
				files = append(files, data)
			}
		}
	}
	return files
}

// mutationsAsked returns how many files to mutate, and the seed: IMGFEED_JPEG_MUTATIONS=1000000,7 asks for a million from the seed 7.
func mutationsAsked(t testing.TB) (count int, seed uint64) {
	t.Helper()
	count, seed = 5000, 1
	number, rest, _ := strings.Cut(os.Getenv("IMGFEED_JPEG_MUTATIONS"), ",")
	for text, set := range map[string]func(uint64){number: func(n uint64) { count = int(n) }, rest: func(n uint64) { seed = n }} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		testenv.OK(t, err, "IMGFEED_JPEG_MUTATIONS")
		set(n)
	}
	return count, seed
}

// TestMutationsAgainstPillow mutates small and long files of all kinds, and holds each to an outcome that the package promises:
// Pillow's pixels, or a refusal for a reason that is stated. It prints how many had which.
func TestMutationsAgainstPillow(t *testing.T) {
	for name, files := range map[string]func(testing.TB, *pillow) [][]byte{"small": smallFiles, "long": longFiles} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			py := startPillow(t)
			mutateAll(t, py, files(t, py))
		})
	}
}

func mutateAll(t *testing.T, py *pillow, files [][]byte) {
	count, seed := mutationsAsked(t)
	kinds := maps.Clone(damages)
	maps.Copy(kinds, headerDamages)
	names := slices.Sorted(maps.Keys(kinds))
	rnd := rand.New(rand.NewPCG(seed, 15))
	decoders := newDecoders()
	outcomes := make(map[outcome]int)
	for done := 0; done < count; {
		var batch []*mutated
		for ; len(batch) < 50 && done < count; done++ {
			data := slices.Clone(files[rnd.IntN(len(files))])
			kind := names[rnd.IntN(len(names))]
			data = kinds[kind](rnd, data, scanOf(data))
			if rnd.IntN(8) == 0 && len(data) > 40 {
				second := names[rnd.IntN(len(names))]
				data, kind = kinds[second](rnd, data, scanOf(data)), kind+", "+second
			}
			batch = append(batch, decodeMutated(t, decoders[done%len(decoders)], kind, data))
		}
		py.compare(t, batch, outcomes)
	}
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		fmt.Printf("jpeg: %8d mutated files, %s: %s\n", outcomes[o], t.Name(), o)
	}
}

// scanOf returns where the first scan's data start, as damages wants it, in a file that may be damaged already.
func scanOf(data []byte) int {
	at := strings.Index(string(data), "\xff\xda")
	return min(max(at, 0)+4, len(data)-1)
}

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
