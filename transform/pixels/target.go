package pixels

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/transform/resample"
)

// target is where the rows of a rectangle go.
type target struct {
	pix        []byte
	width      int // pixels in a row
	rowBytes   int // from one row to the next
	planeBytes int // from one plane to the next, or 0 if the pixels are interleaved
	flip       bool
}

// rowsTarget is the target of a Decode: interleaved rows, stride bytes apart.
func rowsTarget(dst []byte, stride int, r image.Rectangle) (target, error) {
	w, h := r.Dx(), r.Dy()
	if stride < 3*w || len(dst) < (h-1)*stride+3*w {
		return target{}, fmt.Errorf("pixels: %d bytes with a stride of %d do not hold %d×%d pixels", len(dst), stride, w, h)
	}
	return target{pix: dst, width: w, rowBytes: stride}, nil
}

// outputTarget is the target of a DecodeTo.
func outputTarget(out resample.Output, r image.Rectangle) (target, error) {
	w, h := r.Dx(), r.Dy()
	if out.Width != w || out.Height != h {
		return target{}, fmt.Errorf("pixels: the output is %d×%d, the rectangle %d×%d", out.Width, out.Height, w, h)
	}
	if len(out.Pix) < 3*w*h {
		return target{}, fmt.Errorf("pixels: the output has %d bytes, %d×%d pixels need %d", len(out.Pix), w, h, 3*w*h)
	}
	t := target{pix: out.Pix, width: w, rowBytes: 3 * w, flip: out.Flip}
	if out.Layout == resample.NCHW {
		t.rowBytes, t.planeBytes = w, w*h
	}
	return t, nil
}

// emit writes row y from the three planes of a decoded row, starting at column x of them.
func (t *target) emit(k *kernels, planes []byte, stride, x, y int) {
	if t.planeBytes == 0 {
		o := y * t.rowBytes
		k.interleave(t.pix[o:o+3*t.width], planes[x:], stride, t.width, t.flip)
		return
	}
	o := y * t.rowBytes
	k.planar(t.pix[o:o+2*t.planeBytes+t.width], t.planeBytes, planes[x:], stride, t.width, t.flip)
}
