package blur

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// passes is the number of box blurs with which Pillow approximates a Gaussian blur.
const passes = 3

// RadiusMax bounds the radius of Pillow's blur. A larger one leaves an image of a single colour, and takes longer in proportion.
const RadiusMax = 100

// A box has the weights of one blur, in units of 2⁻²⁴: inner for 2·radius + 1 values, outer for the two beyond.
type box struct {
	radius       int
	inner, outer uint32
}

// boxOf returns the box that, used three times, is as wide as a Gaussian with a standard deviation of radius: Pillow's
// _gaussian_blur_radius followed by the computations of ImagingHorizontalBoxBlur, in float32 and float64 as there.
func boxOf(radius float32) box {
	sigma2 := float32(radius*radius) / passes
	length := float32(math.Sqrt(float64(12*float64(sigma2)) + 1))
	l := float32(math.Floor((float64(length) - 1) / 2))
	a := float32((float32(2*l) + 1) * (float32(l*(l+1)) - float32(3*sigma2)))
	a /= float32(6 * (sigma2 - float32((l+1)*(l+1))))
	width := l + a
	b := box{radius: int(width)}
	b.inner = uint32(float32(1<<24) / (float32(width*2) + 1))
	b.outer = (1<<24 - uint32(2*b.radius+1)*b.inner) / 2
	return b
}

// Pillow writes src, blurred as ImageFilter.GaussianBlur(radius), to dst, of the same size. radius is from 0 to RadiusMax. The images
// do not overlap; dst has imagefile.SlackBytes of capacity.
func (r *Blurrer) Pillow(dst, src *imagefile.RGB, radius float64) {
	if float32(radius) == 0 {
		copy(dst.Pix, src.Pix)
		return
	}
	b := boxOf(float32(radius))
	run := b.kernel(r.kernels)
	w, h, stride, margin := src.Width, src.Height, 3*src.Width, b.radius+1
	for i := range 2 {
		r.lines[i] = grown(r.lines[i], stride+6*margin)
		r.planes[i] = grown(r.planes[i], (h+2*margin)*stride)
	}
	line, other, image, next := r.lines[0], r.lines[1], r.planes[0], r.planes[1]
	for y := range h {
		copy(line[3*margin:], src.Pix[y*stride:][:stride])
		extend(line, margin, w)
		run(other[3*margin:], line, 3, stride, b)
		extend(other, margin, w)
		run(line[3*margin:], other, 3, stride, b)
		extend(line, margin, w)
		run(image[(margin+y)*stride:], line, 3, stride, b)
	}
	for pass := range passes {
		for i := range margin {
			copy(image[i*stride:][:stride], image[margin*stride:])
			copy(image[(margin+h+i)*stride:][:stride], image[(margin+h-1)*stride:])
		}
		result := next[margin*stride:]
		if pass == passes-1 {
			result = dst.Pix[:cap(dst.Pix)]
		}
		for y := range h {
			run(result[y*stride:], image[y*stride:], stride, stride, b)
		}
		image, next = next, image
	}
}

// A boxKernel blurs n values. Each of dst is made of values of src from the same index on, step apart. It may read and
// write up to vectorMax bytes more behind them.
type boxKernel func(dst, src []byte, step, n int, b box)

// kernel returns the kernel for a box: the fast one needs sums that fit words, and an outer weight that rounding has not made negative.
func (b box) kernel(k *kernels) boxKernel {
	if k == nil || b.radius > 60 || b.outer > 1<<23 {
		return boxGeneric
	}
	return k.box
}

func boxGeneric(dst, src []byte, step, n int, b box) {
	behind := (2*b.radius + 2) * step
	for i := range n {
		var sum uint32
		for at := i + step; at < i+behind; at += step {
			sum += uint32(src[at])
		}
		total := sum*b.inner + (uint32(src[i])+uint32(src[i+behind]))*b.outer
		dst[i] = byte((total + 1<<23) >> 24)
	}
}
