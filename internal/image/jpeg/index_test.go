package jpeg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A forgery is an index taken apart, with absolute numbers in its entries: whatever is changed, encode puts it together
// again with right checksums.
type forgery struct {
	header  []byte
	entries []indexEntry
	rows    int // entries in a row
	colours int
	wide    int
}

// parseForgery takes apart the index that a decoder has just made.
func parseForgery(t testing.TB, d *Decoder, index []byte) *forgery {
	t.Helper()
	f := &forgery{header: bytes.Clone(index[:indexHeaderSize]), colours: len(d.components), wide: d.mcusWide}
	r := indexReader{data: index[indexHeaderSize : len(index)-4], step: int(index[1])}
	f.rows = (d.mcusWide + r.step - 1) / r.step
	for y := range d.mcusHigh {
		for x := 0; x < d.mcusWide; x += r.step {
			testenv.OK(t, r.next(&d.frame, y*d.mcusWide+x, x == 0))
			f.entries = append(f.entries, r.entry)
		}
	}
	err := r.next(&d.frame, d.mcusWide*d.mcusHigh, true)
	testenv.Require(t, err == nil && len(r.data) == 0, "%d bytes after the last entry, error %v", len(r.data), err)
	f.entries = append(f.entries, r.entry)
	return f
}

func (f *forgery) clone() *forgery {
	c := *f
	c.header, c.entries = bytes.Clone(f.header), slices.Clone(f.entries)
	return &c
}

// encode returns the index's bytes. A position that goes back cannot be written, and becomes none.
func (f *forgery) encode() []byte {
	out := bytes.Clone(f.header)
	var last indexEntry
	for _, e := range f.entries {
		out = binary.AppendUvarint(out, uint64(max(0, e.bit-last.bit)))
		if e.mcu%f.wide == 0 {
			out = binary.AppendUvarint(out, uint64(max(0, e.removed-last.removed)))
		}
		for c := range f.colours {
			diff := e.predictor[c] - last.predictor[c]
			out = binary.AppendUvarint(out, uint64(uint32(diff<<1^diff>>31)))
		}
		e.bit, e.removed = max(e.bit, last.bit), max(e.removed, last.removed)
		last = e
	}
	return binary.LittleEndian.AppendUint32(out, crc32c.Checksum(out))
}

// any returns one of the entries.
func (f *forgery) any(rnd *rand.Rand) *indexEntry { return &f.entries[rnd.IntN(len(f.entries))] }

// forgeries change one entry, or several of which no two in a row agree with each other. rnd chooses where.
var forgeries = map[string]func(f *forgery, rnd *rand.Rand){
	"position of one":        func(f *forgery, rnd *rand.Rand) { f.any(rnd).bit += rnd.IntN(65) - 32 },
	"position of one, far":   func(f *forgery, rnd *rand.Rand) { f.any(rnd).bit += (rnd.IntN(401) - 200) * 8 },
	"predictor of one":       func(f *forgery, rnd *rand.Rand) { f.any(rnd).predictor[rnd.IntN(f.colours)] += 1 + rnd.Int32N(200) },
	"predictor of one wraps": func(f *forgery, rnd *rand.Rand) { f.any(rnd).predictor[rnd.IntN(f.colours)] += 1 << 16 },
	"another step":           func(f *forgery, rnd *rand.Rand) { f.header[1] = byte(1 + rnd.IntN(16)) },
	"removed bytes of a row": func(f *forgery, rnd *rand.Rand) {
		f.entries[rnd.IntN(len(f.entries)/f.rows)*f.rows].removed += 1 + rnd.IntN(8)
	},
	"positions of all after": func(f *forgery, rnd *rand.Rand) {
		shift := 1 + rnd.IntN(64)
		for i := 1 + rnd.IntN(len(f.entries)-1); i < len(f.entries); i++ {
			f.entries[i].bit += shift
		}
	},
	"predictors swapped": func(f *forgery, rnd *rand.Rand) {
		a, b := f.any(rnd), f.any(rnd)
		a.predictor, b.predictor = b.predictor, a.predictor
	},
	"position of another": func(f *forgery, rnd *rand.Rand) {
		a, b := f.any(rnd), f.any(rnd)
		a.bit, a.predictor = b.bit, b.predictor
	},
	"neighbours alike": func(f *forgery, rnd *rand.Rand) {
		i := rnd.IntN(len(f.entries) - 1)
		f.entries[i].bit, f.entries[i].predictor = f.entries[i+1].bit, f.entries[i+1].predictor
	},
	"all one early": func(f *forgery, _ *rand.Rand) {
		for i := range len(f.entries) - 1 {
			f.entries[i].bit, f.entries[i].predictor = f.entries[i+1].bit, f.entries[i+1].predictor
		}
	},
	"noise everywhere": func(f *forgery, rnd *rand.Rand) {
		for i := range f.entries {
			f.entries[i].bit += rnd.IntN(9) - 4
			f.entries[i].predictor[rnd.IntN(f.colours)] += rnd.Int32N(9) - 4
		}
	},
}

// synthetic returns a JPEG file of smooth and of rough parts, made by Go's encoder.
func synthetic(t testing.TB, width, height int) []byte {
	t.Helper()
	rnd := rand.New(rand.NewPCG(24, 25))
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			rough := rnd.IntN(1 + (x/64+y/96)%4*30)
			m.SetRGBA(x, y, color.RGBA{R: uint8(x/8 + rough), G: uint8(y/4 + rough/2), B: uint8((x + y) / 16), A: 255})
		}
	}
	var out bytes.Buffer
	testenv.OK(t, stdjpeg.Encode(&out, m, &stdjpeg.Options{Quality: 85}))
	return out.Bytes()
}

// indexedFile is a file with its index, and its pixels from a decode without it.
type indexedFile struct {
	name  string
	data  []byte
	index *forgery
	size  image.Point
	pix   []byte
}

// indexedFiles returns the golden files that have an index, and some photographs if there are any.
func indexedFiles(t testing.TB, d *Decoder) (files []indexedFile) {
	add := func(name string, data []byte) {
		index, config := testenv.Must2(d.AppendIndex(nil, data))(t)
		if len(index) == 0 {
			return
		}
		f := indexedFile{name: name, data: data, index: parseForgery(t, d, index), size: image.Pt(config.Width, config.Height)}
		testenv.Same(t, f.index.encode(), index, "%s: the index encoded again", name)
		f.pix = testenv.Must(decodeRegion(d, data, nil, image.Rectangle{Max: f.size}))(t)
		files = append(files, f)
	}
	for _, name := range slices.Sorted(maps.Keys(goldenFiles(t))) {
		add(name, golden(t, name))
	}
	add("synthetic.jpg", synthetic(t, 1500, 700))
	return files
}

// TestForgedIndex changes indexes on purpose and makes their checksums good again. Every change that does not make two
// entries of a row agree must give an error or the right pixels, in every region.
func TestForgedIndex(t *testing.T) {
	t.Parallel()
	d := New(kernel.Active())
	rnd := rand.New(rand.NewPCG(20, 21))
	files := indexedFiles(t, d)
	count := 60
	if testing.Short() {
		count = 5
	}
	refused, right := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(forgeries)) {
		for _, f := range files {
			for range count {
				forged := f.index.clone()
				forgeries[kind](forged, rnd)
				r := randomRegion(rnd, f.size.X, f.size.Y)
				got, err := decodeRegion(d, f.data, forged.encode(), r)
				switch {
				case err != nil && !isOurs(err):
					t.Fatalf("%s, %s: error of type %T", kind, f.name, err)
				case err != nil:
					refused++
				case bytes.Equal(got, cut(f.pix, f.size.X, r)):
					right++
				default:
					t.Errorf("%s: %s, region %v: wrong pixels without an error", kind, f.name, r)
				}
			}
		}
	}
	fmt.Printf("jpeg: of %d forged indexes %d refused, %d harmless in the region\n", refused+right, refused, right)
}

// TestAgreeingForgery makes the one kind of index that may give wrong pixels: two entries of a row wrong in a way that agrees. It must be
// found where a region proves itself, from the scan's first MCU over whole rows, and by making the index anew.
func TestAgreeingForgery(t *testing.T) {
	d := New(kernel.Active())
	data := synthetic(t, 800, 600)
	index, _ := testenv.Must2(d.AppendIndex(nil, data))(t)
	f := parseForgery(t, d, index)
	for row := 10; row < 13; row++ {
		for x := range f.rows {
			f.entries[row*f.rows+x].predictor[0] += 40
		}
	}
	forged := f.encode()
	inside := image.Rect(200, 100, 600, 500)
	want := testenv.Must(decodeRegion(d, data, nil, inside))(t)
	got := testenv.Must(decodeRegion(d, data, forged, inside))(t)
	testenv.Check(t, !bytes.Equal(got, want), "an index whose entries agree gives the right pixels: the document says that it may not")
	for _, r := range []image.Rectangle{image.Rect(0, 0, 800, 600), image.Rect(0, 0, 800, 200)} {
		testenv.Fails(decodeRegion(d, data, forged, r))(t, "index", "%v", r)
	}
	again, _, err := d.AppendIndex(nil, data)
	testenv.Check(t, err == nil && !bytes.Equal(again, forged), "making the index anew does not tell the forgery: %v", err)
}

// TestIndexAnchors changes what stands fast: the position of MCU 0, and predictors where a restart or the scan's start has
// made them zero. Even a region at the image's end must notice.
func TestIndexAnchors(t *testing.T) {
	d := New(kernel.Active())
	for _, name := range []string{"optimised-restart-2x2.jpg", "baseline-2x2.jpg"} {
		data := golden(t, name)
		index, config := testenv.Must2(d.AppendIndex(nil, data))(t)
		f := parseForgery(t, d, index)
		last := image.Rect(config.Width-1, config.Height-1, config.Width, config.Height)
		check := func(i int, change func(e *indexEntry)) {
			forged := f.clone()
			change(&forged.entries[i])
			testenv.Fails(decodeRegion(d, data, forged.encode(), last))(t, "at a restart", "%s: entry %d of %d", name, i, len(f.entries))
		}
		check(0, func(e *indexEntry) { e.bit++ })
		for i, e := range f.entries {
			if d.restartsAt(e.mcu) {
				check(i, func(e *indexEntry) { e.predictor[1]++ })
			}
		}
	}
}

// FuzzIndex gives decoders any entries after a right header and before a right checksum: whatever they say, decoding
// ends with pixels or with an error of this package, and stays inside its buffers.
func FuzzIndex(f *testing.F) {
	decoders := newDecoders()
	files := indexedFiles(f, decoders[0])
	for i, file := range files {
		index := file.index.encode()
		f.Add(uint8(i), index[1], index[indexHeaderSize:len(index)-4], uint64(i))
	}
	f.Fuzz(func(t *testing.T, which, step uint8, entries []byte, seed uint64) {
		file := &files[int(which)%len(files)]
		index := append(bytes.Clone(file.index.header), entries...)
		index[1] = step
		index = binary.LittleEndian.AppendUint32(index, crc32c.Checksum(index))
		r := randomRegion(rand.New(rand.NewPCG(seed, 2)), file.size.X, file.size.Y)
		whole := image.Rectangle{Max: file.size}
		for i, d := range decoders {
			for _, r := range []image.Rectangle{r, whole} {
				got, err := decodeRegion(d, file.data, index, r)
				testenv.Require(t, err == nil || isOurs(err), "level %d, region %v: error of type %T", i, r, err)
				testenv.Require(t, err != nil || r != whole || bytes.Equal(got, file.pix),
					"level %d: other pixels of the whole image, which proves itself", i)
			}
		}
	})
}

// BenchmarkDecode measures, over the sample photographs on one thread, full decodes, the crop that Resize(256) and
// CenterCrop(224) keep with and without the index, and making the index.
func BenchmarkDecode(b *testing.B) {
	files := photographs(b)
	var photos, indexes [][]byte
	var sizes []image.Point
	var total, indexed int64
	d := New(kernel.Active())
	for _, f := range files {
		data := readFile(b, f)
		index, config := testenv.Must2(d.AppendIndex(nil, data))(b)
		photos, indexes = append(photos, data), append(indexes, index)
		sizes = append(sizes, image.Pt(config.Width, config.Height))
		total += int64(len(data))
		indexed += int64(len(index))
	}
	dst := make([]byte, 5000*5000*3)
	run := func(name string, level kernel.Level, useIndex bool, region func(image.Point) image.Rectangle) {
		b.Run(name+"/"+level.String(), func(b *testing.B) {
			d := New(level)
			b.ReportAllocs()
			b.SetBytes(total / int64(len(photos)))
			for i := 0; b.Loop(); i++ {
				p := i % len(photos)
				var index []byte
				if useIndex {
					index = indexes[p]
				}
				r := region(sizes[p])
				testenv.Must(d.Reset(photos[p], index))(b)
				testenv.OK(b, d.Decode(dst, r.Dx()*3, r))
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
	full := func(size image.Point) image.Rectangle { return image.Rectangle{Max: size} }
	for _, level := range kernel.Available() {
		run("full", level, false, full)
		run("center", level, false, centerCrop)
		run("centerIndexed", level, true, centerCrop)
	}
	b.Run("index", func(b *testing.B) {
		d := New(kernel.Active())
		var index []byte
		for i := 0; b.Loop(); i++ {
			var err error
			if index, _, err = d.AppendIndex(index[:0], photos[i%len(photos)]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
		b.ReportMetric(100*float64(indexed)/float64(total), "%size")
	})
}

// centerCrop is about what the eval transform reads of an image.
func centerCrop(size image.Point) image.Rectangle {
	side := max(1, min(size.X, size.Y)*224/256)
	x, y := (size.X-side)/2, (size.Y-side)/2
	return image.Rect(x, y, x+side, y+side)
}
