package jpeg

import (
	"crypto/sha256"
	"encoding/hex"
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
func (o outcome) allowed() bool {
	return o != otherPixels && o != onlyPillow && o != onlyHere
}

func (o outcome) taken() bool { return o == samePixels || o == sameRepaired }

// A mutated is what this package makes of a file.
type mutated struct {
	config       Config
	pix          []byte
	err          error
	damaged, eoi bool
	sparse       bool // fewer bytes than an eighth of the blocks
}

func decodeMutated(d *Decoder, data []byte) (m mutated) {
	if m.config, m.err = DecodeConfig(data); m.err != nil || m.large() {
		return m
	}
	m.pix, m.err = decodeRegion(d, data, nil, image.Rect(0, 0, m.config.Width, m.config.Height))
	m.damaged, m.eoi = d.Damage() != nil, d.eoi
	m.sparse = d.blockCount()/8 > len(data)
	return m
}

// large reports whether the image is too large to be compared: a changed header may say anything.
func (m *mutated) large() bool { return m.config.Width*m.config.Height > 1<<18 }

// judge compares with Pillow's size and pixels, or what it refuses the file for.
func (m *mutated) judge(size image.Point, refused error, equal func() bool) outcome {
	unsupported, left := errors.AsType[*UnsupportedError](m.err)
	switch {
	case m.large() || refused != nil && strings.Contains(refused.Error(), "too many pixels to be judged"):
		return tooLarge
	case m.err != nil && refused != nil:
		return bothRefuse
	case left:
		return leftOut + outcome(unsupported.Msg)
	case m.err != nil && m.sparse:
		return tooFewBytes
	case m.err != nil:
		return onlyPillow
	case refused != nil && strings.HasPrefix(refused.Error(), "UnidentifiedImageError"):
		return pillowHeader
	case refused != nil && m.damaged && !m.eoi:
		return noEOI
	case refused != nil:
		return onlyHere
	case size != image.Pt(m.config.Width, m.config.Height) || !equal():
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

// verdicts has Pillow judge files.
func (p *pillow) verdicts(t testing.TB, files [][]byte) []verdict {
	t.Helper()
	request := []byte("judge")
	for _, data := range files {
		request = fmt.Append(request, " ", len(data))
	}
	request = append(request, '\n')
	if _, err := p.in.Write(append(request, slices.Concat(files...)...)); err != nil {
		t.Fatal(err)
	}
	all := make([]verdict, len(files))
	for i := range all {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if message, ok := strings.CutPrefix(line, "error "); ok {
			all[i].refused = errors.New(strings.TrimSpace(message))
		} else if _, err := fmt.Sscan(line, &all[i].size.X, &all[i].size.Y, &all[i].hash); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return all
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
			format := []byte(fmt.Sprintf("P6\n%d %d\n255\n", size.X, size.Y))
			if err := os.WriteFile(path, append(format, pix...), 0o644); err != nil {
				t.Fatal(err)
			}
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
	count, seed = 4000, 1
	number, rest, _ := strings.Cut(os.Getenv("IMGFEED_JPEG_MUTATIONS"), ",")
	for text, set := range map[string]func(uint64){number: func(n uint64) { count = int(n) }, rest: func(n uint64) { seed = n }} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			t.Fatalf("IMGFEED_JPEG_MUTATIONS: %v", err)
		}
		set(n)
	}
	return count, seed
}

// TestMutationsAgainstPillow mutates small files of all kinds, and holds each to an outcome that the package promises: Pillow's
// pixels, or a refusal for a reason that is stated. It prints how many had which.
func TestMutationsAgainstPillow(t *testing.T) {
	t.Parallel()
	count, seed := mutationsAsked(t)
	py := startPillow(t)
	files := smallFiles(t, py)
	kinds := maps.Clone(damages)
	maps.Copy(kinds, headerDamages)
	names := slices.Sorted(maps.Keys(kinds))
	rnd := rand.New(rand.NewPCG(seed, 15))
	decoders := newDecoders()
	outcomes := make(map[outcome]int)
	faults := 0
	for done := 0; done < count && faults < 20; {
		var batch [][]byte
		var kindOf []string
		var ours []mutated
		for ; len(batch) < 250 && done < count; done++ {
			data := slices.Clone(files[rnd.IntN(len(files))])
			kind := names[rnd.IntN(len(names))]
			data = kinds[kind](rnd, data, scanOf(data))
			if rnd.IntN(8) == 0 && len(data) > 40 {
				second := names[rnd.IntN(len(names))]
				data, kind = kinds[second](rnd, data, scanOf(data)), kind+", "+second
			}
			batch, kindOf = append(batch, data), append(kindOf, kind)
			m := decodeMutated(decoders[done%len(decoders)], data)
			m.pix = hashOf(m.pix)
			ours = append(ours, m)
		}
		for i, v := range py.verdicts(t, batch) {
			m := &ours[i]
			o := m.judge(v.size, v.refused, func() bool { return string(m.pix) == v.hash })
			outcomes[o]++
			if !o.allowed() {
				faults++
				keep := filepath.Join(os.TempDir(), fmt.Sprintf("imgfeed-mutated-%d-%d.jpg", os.Getpid(), faults))
				_ = os.WriteFile(keep, batch[i], 0o644)
				t.Errorf("%s of %+v: %s: this package says %v, Pillow %v; the file is kept as %s", kindOf[i], m.config, o, m.err, v.refused, keep)
			}
		}
	}
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		fmt.Printf("jpeg: %8d mutated files: %s\n", outcomes[o], o)
	}
}

// scanOf returns where the first scan's data start, as damages wants it, in a file that may be damaged already.
func scanOf(data []byte) int {
	at := strings.Index(string(data), "\xff\xda")
	return min(max(at, 0)+4, len(data)-1)
}

// hashOf returns what Pillow's side says of pixels.
func hashOf(pix []byte) []byte {
	sum := sha256.Sum256(pix)
	return hex.AppendEncode(nil, sum[:])
}
