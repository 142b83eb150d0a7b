package jpeg

import (
	"image"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
