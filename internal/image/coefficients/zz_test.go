package coefficients

import (
	"image"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

func BenchmarkCo(b *testing.B) {
	files, _ := filepath.Glob(os.Getenv("IMGFEED_TEST_IMAGES") + "/*.JPEG")
	var records, datas [][]byte
	var sizes []image.Point
	e := NewEncoder(kernel.Active())
	for _, f := range files {
		data, _ := os.ReadFile(f)
		r, c, err := e.Encode(nil, data)
		if err != nil {
			continue
		}
		records, datas = append(records, r), append(datas, data)
		sizes = append(sizes, image.Pt(c.Width, c.Height))
		if len(records) == 250 {
			break
		}
	}
	dst := make([]byte, 5000*5000*3)
	for _, level := range kernel.Available() {
		b.Run("decode/"+level.String(), func(b *testing.B) {
			d := NewDecoder(level)
			for i := 0; b.Loop(); i++ {
				p := i % len(records)
				if _, err := d.Reset(records[p]); err != nil {
					b.Fatal(err)
				}
				s := max(1, min(sizes[p].X, sizes[p].Y)*224/256)
				x, y := (sizes[p].X-s)/2, (sizes[p].Y-s)/2
				if err := d.Decode(dst, 3*s, image.Rect(x, y, x+s, y+s)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("encode/"+level.String(), func(b *testing.B) {
			e := NewEncoder(level)
			var r []byte
			for i := 0; b.Loop(); i++ {
				r, _, _ = e.Encode(r[:0], datas[i%len(datas)])
			}
		})
	}
}
