package pixelcodec

import (
	"fmt"
	"image"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/resample"
)

// target is the destination of a rectangle's rows.
type target struct {
	pix         []byte
	width       int // pixels in a row
	height      int // rows
	rowBytes    int // distance of rows
	planeBytes  int // distance of planes, or 0 for interleaved pixels
	flip        bool
	nonTemporal bool // bypasses the caches
}

// rowsTarget is the target of a Decode: interleaved rows, stride bytes apart.
func rowsTarget(dst []byte, stride int, r image.Rectangle) (target, error) {
	w, h := r.Dx(), r.Dy()
	if stride < 3*w || len(dst) < (h-1)*stride+3*w {
		return target{}, fmt.Errorf("pixels: %d bytes with a stride of %d do not hold %d×%d pixels", len(dst), stride, w, h)
	}
	return target{pix: dst, width: w, height: h, rowBytes: stride}, nil
}

// outputTarget is the target of a DecodeTo.
func outputTarget(out resample.Output, r image.Rectangle, nonTemporal bool) (target, error) {
	w, h := r.Dx(), r.Dy()
	if out.Width != w || out.Height != h {
		return target{}, fmt.Errorf("pixels: the output is %d×%d, the rectangle %d×%d", out.Width, out.Height, w, h)
	}
	if len(out.Pix) < 3*w*h {
		return target{}, fmt.Errorf("pixels: the output has %d bytes, %d×%d pixels need %d", len(out.Pix), w, h, 3*w*h)
	}
	t := target{pix: out.Pix, width: w, height: h, rowBytes: 3 * w, flip: out.Flip, nonTemporal: nonTemporal}
	if out.Layout == resample.NCHW {
		t.rowBytes, t.planeBytes = w, w*h
	}
	return t, nil
}

// choose decides whether rows are streamed: only on request, and if the kernels and the alignment allow it.
func (t *target) choose(k *kernels) {
	t.nonTemporal = t.nonTemporal && k.stream != nil && t.planeBytes == 0 && t.rowBytes == 3*t.width &&
		t.width%streamAlign == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(t.pix)))%streamAlign == 0
}

// emit writes rows y and y+1 from a decoded pair, starting at column x of it. Rows outside are skipped. If count is 1
// it writes only row y, from the pair's top row.
func (t *target) emit(k *kernels, pair *rowPair, x, y, count int) {
	top, bottom := pair.top, pair.bottom
	if y < 0 {
		top, bottom, y = bottom, nil, 0
	} else if y+1 >= t.height || count == 1 {
		bottom = nil
	}
	if t.nonTemporal {
		n := 1
		if bottom != nil {
			bottom, n = bottom[x:], 2
		}
		o := y * t.rowBytes
		k.stream(t.pix[o:o+n*t.rowBytes], top[x:], bottom, pair.stride, t.width, t.flip)
		return
	}
	t.emitRow(k, top, pair.stride, x, y)
	if bottom != nil {
		t.emitRow(k, bottom, pair.stride, x, y+1)
	}
}

// emitRow writes row y from the three planes of a decoded row, starting at column x of them.
func (t *target) emitRow(k *kernels, planes []byte, stride, x, y int) {
	if t.planeBytes == 0 {
		o := y * t.rowBytes
		k.interleave(t.pix[o:o+3*t.width], planes[x:], stride, t.width, t.flip)
		return
	}
	o := y * t.rowBytes
	k.planar(t.pix[o:o+2*t.planeBytes+t.width], t.planeBytes, planes[x:], stride, t.width, t.flip)
}
