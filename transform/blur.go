package transform

import (
	"errors"
	"fmt"

	"github.com/imgfeed/imgfeed/internal/libm"
	"github.com/imgfeed/imgfeed/transform/internal/blur"
)

// GaussianBlur is torchvision.transforms.GaussianBlur(kernel_size, sigma). Its bits are torchvision's, except where a
// sum lies within a rounding error of half way between two bytes.
type GaussianBlur struct {
	// KernelSize are the kernel's width and height, odd; {n} is a square.
	KernelSize [2]int `param:"kernel_size" range:"1 255"`
	// Sigma are the smallest and the largest standard deviation, in pixels.
	Sigma [2]float64 `param:"sigma" is:"range" default:"[0.1, 2]" range:"0 1e6"`
}

func (o GaussianBlur) prepare() (Op, error) {
	if o.Sigma[0] == 0 {
		return nil, errors.New("sigma is 0, want more than 0")
	}
	return o, nil
}

func (o GaussianBlur) apply(c *canvas) error {
	return c.gaussianBlur(o.KernelSize, c.draws.uniform(o.Sigma[0], o.Sigma[1]))
}

// gaussianBlur is torchvision's gaussian_blur by a kernel of a size, width and height.
func (c *canvas) gaussianBlur(size [2]int, sigma float64) error {
	if c.log != nil {
		c.log.add("gaussian_blur", "kernel_size", size, "sigma", [2]float64{sigma, sigma})
	}
	w, h := c.size()
	if size[0]/2 >= w || size[1]/2 >= h {
		return &SizeError{NameOf(c.op), w, h, fmt.Sprintf("half of its kernel of %d×%d must be smaller", size[0], size[1])}
	}
	from, to, err := c.redraw(w, h)
	if err != nil {
		return err
	}
	weights := &c.engine.blurWeights
	for i := range weights {
		weights[i] = gaussianWeights(weights[i][:0], size[i], sigma)
	}
	c.engine.blurrer.Torchvision(to, from, weights[0], weights[1])
	return nil
}

// gaussianWeights appends the weights of a kernel's middle and of one side.
func gaussianWeights(to []float32, size int, sigma float64) []float32 {
	weight := func(i int) float64 {
		x := float64(i) / sigma
		if power := float64(-0.5 * float64(x*x)); power > -700 {
			return libm.Exp(power)
		}
		return 0
	}
	sum := weight(0)
	for i := 1; i <= size/2; i++ {
		sum += float64(2 * weight(i))
	}
	for i := range size/2 + 1 {
		to = append(to, float32(weight(i)/sum))
	}
	return to
}

// PILGaussianBlur is Pillow's ImageFilter.GaussianBlur with a random radius, applied with a probability, as in MoCo,
// BYOL, DINO and timm. torchvision has no name for it. Its bits are Pillow's.
type PILGaussianBlur struct {
	// Radius are the smallest and the largest standard deviation, in pixels.
	Radius [2]float64 `param:"radius" is:"range" default:"[0.1, 2]" range:"0 100"`
	// P is the probability of a blur.
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o PILGaussianBlur) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error { return c.pillowBlur(c.draws.uniform(o.Radius[0], o.Radius[1])) })
}

// pillowBlur is ImageFilter.GaussianBlur(radius), for radii up to blur.RadiusMax.
func (c *canvas) pillowBlur(radius float64) error {
	if float32(radius) == 0 {
		return nil
	}
	noteBy(c, "pillow_gaussian_blur", "radius", radius)
	w, h := c.size()
	from, to, err := c.redraw(w, h)
	if err == nil {
		c.engine.blurrer.Pillow(to, from, radius)
	}
	return err
}

// The ranges in the declarations equal the limits of the kernels.
var _ = [1]struct{}{}[blur.KernelMax-255+blur.RadiusMax-100]
