package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A recording is a QuadSource of what ReadCoefficients has given.
type recording struct {
	layout         Layout
	header, rest   []byte
	quads          []Quad
	extents        []uint8
	y, next, x, x1 int
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

// checkSplit takes a file apart and puts it together, and compares regions decoded from coefficients with the file's. It returns
// the reason why a file cannot be had back.
func checkSplit(t testing.TB, decoders []*Decoder, rnd *rand.Rand, name string, data []byte) (*recording, error) {
	t.Helper()
	r, err := record(decoders[0], data)
	if err != nil {
		return nil, err
	}
	file, err := r.rebuild(decoders[0])
	if err != nil {
		t.Fatalf("%s: AppendFile: %v", name, err)
	}
	if !bytes.Equal(file, data) {
		return nil, fmt.Errorf("the file comes out otherwise: %d bytes, not %d", len(file), len(data))
	}
	for _, d := range decoders {
		for i := range 2 {
			config, err := d.Reset(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			region := image.Rect(0, 0, config.Width, config.Height)
			if i > 0 {
				region = randomRegion(rnd, config.Width, config.Height)
			}
			want, err := decodeRegion(d, data, nil, region)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeCoefficientsRegion(d, r, region)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: region %v from coefficients: other pixels than from the file, or error %v", name, region, err)
			}
		}
	}
	return r, nil
}

func decodeCoefficientsRegion(d *Decoder, r *recording, region image.Rectangle) ([]byte, error) {
	if _, err := d.ResetCoefficients(r.header, r); err != nil {
		return nil, err
	}
	pix := make([]byte, region.Dx()*region.Dy()*3)
	return pix, d.Decode(pix, region.Dx()*3, region)
}

func TestSplitGolden(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	decoders := newDecoders()
	for _, name := range slices.Sorted(maps.Keys(goldenFiles(t))) {
		r, err := checkSplit(t, decoders, rnd, name, golden(t, name))
		if err != nil {
			fmt.Println(name, err)
		} else {
			fmt.Println(name, len(r.header), len(r.rest))
		}
	}
}

func TestSplitPhotographs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	decoders := []*Decoder{New(kernel.Active())}
	total, header, rest, n := 0, 0, 0, 0
	for _, f := range photographs(t) {
		data := readFile(t, f)
		r, err := checkSplit(t, decoders, rnd, filepath.Base(f), data)
		if err != nil {
			fmt.Println(f, err)
			continue
		}
		n++
		total += len(data)
		header += len(r.header)
		rest += len(r.rest)
	}
	fmt.Println(n, total/n, header/n, rest/n)
}
