package blur

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// KernelMax bounds the sides of a kernel.
const KernelMax = 255

// Torchvision writes src, blurred like torchvision.transforms.functional.gaussian_blur, to dst, of the same size. across and down have the
// kernel's weights along rows and columns: that of the middle, then those of one side, at most (KernelMax + 1) / 2. The image must be at
// least as wide as across is long, and as high as down. The images do not overlap; dst has imagefile.SlackBytes of capacity.
func (r *Blurrer) Torchvision(dst, src *imagefile.RGB, across, down []float32) {
	rows, columns := rowsGeneric, columnsGeneric
	if r.kernels != nil {
		rows, columns = r.kernels.rows, r.kernels.columns
	}
	w, h, n := src.Width, src.Height, 3*src.Width
	stride := (n + vectorMax - 1) &^ (vectorMax - 1) // kernels fill whole vectors
	left, above := len(across)-1, len(down)-1
	r.floats = grown(r.floats, (h+2*above)*stride)
	r.lines[0] = grown(r.lines[0], n+6*left)
	line := r.lines[0]
	for y := range h {
		copy(line[3*left:], src.Pix[y*n:][:n])
		for i := 1; i <= left; i++ {
			copy(line[3*(left-i):][:3], line[3*(left+i):])
			copy(line[3*(left+w-1+i):][:3], line[3*(left+w-1-i):])
		}
		rows(r.floats[(above+y)*stride:], line, n, across)
	}
	for i := 1; i <= above; i++ {
		copy(r.floats[(above-i)*stride:][:stride], r.floats[(above+i)*stride:])
		copy(r.floats[(above+h-1+i)*stride:][:stride], r.floats[(above+h-1-i)*stride:])
	}
	for y := range h {
		columns(dst.Pix[y*n:cap(dst.Pix)], r.floats[y*stride:], stride, n, down)
	}
}

// A rowsKernel weighs n bytes of src and those beside them, three apart. src begins with the pixels to the left of the first. It may read
// and write up to vectorMax more behind them. The order within dst is private to the kernel and its columnsKernel.
type rowsKernel func(dst []float32, src []byte, n int, weights []float32)

func rowsGeneric(dst []float32, src []byte, n int, weights []float32) {
	middle := 3 * (len(weights) - 1)
	for i := range n {
		sum := float32(weights[0] * float32(src[i+middle]))
		for k := 1; k < len(weights); k++ {
			sum += float32(weights[k] * float32(int(src[i+middle-3*k])+int(src[i+middle+3*k])))
		}
		dst[i] = sum
	}
}

// A columnsKernel weighs n values of src and those above and below them, stride apart, and rounds half to even. src
// begins with the rows above the first. It may read and write up to vectorMax more behind them.
type columnsKernel func(dst []byte, src []float32, stride, n int, weights []float32)

func columnsGeneric(dst []byte, src []float32, stride, n int, weights []float32) {
	middle := stride * (len(weights) - 1)
	for i := range n {
		sum := float32(weights[0] * src[i+middle])
		for k := 1; k < len(weights); k++ {
			sum += float32(weights[k] * (src[i+middle-k*stride] + src[i+middle+k*stride]))
		}
		dst[i] = rounded(sum)
	}
}

// rounded rounds a sum from about 0 to about 255: in a float32 from 2²³ on, the last bit of the mantissa counts 1.
func rounded(sum float32) byte { return byte(math.Float32bits(sum + roundingAddend)) }

var roundingAddend float32 = 1 << 23
