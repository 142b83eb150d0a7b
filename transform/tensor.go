package transform

import (
	"errors"
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/libm"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// ToImage is torchvision.transforms.v2.ToImage. Operations after it have the bits that torchvision.transforms.v2 gives uint8
// tensors on a CPU with AVX2; those before it have the bits of images of Pillow. It changes no pixel itself.
type ToImage struct {
	// V1 says that torchvision does the operations of a list by torchvision.transforms, not by transforms.v2. Their bits differ on
	// tensors, and those here are of v2.
	V1 bool `param:"v1,omitempty" default:"false"`
}

func (ToImage) random() bool { return false }

func (o ToImage) apply(c *canvas) error {
	if !c.tensor && o.V1 {
		noteBy(c, "to_image", "v1", true)
	} else if !c.tensor {
		c.note("to_image")
	}
	c.tensor = true
	return nil
}

// readBackend takes "backend" out of an operation's parameters, which every operation may have: "tensor" is a ToImage before it.
func (p *parameters) readBackend() error {
	raw := p.values["backend"]
	delete(p.values, "backend")
	switch string(raw) {
	case `"tensor"`:
		p.tensor = true
	case `"pil"`:
		if p.tensor {
			return errors.New(`backend is "pil", but from an operation before it on the image is a tensor`)
		}
	default:
		if !isNull(raw) {
			return fmt.Errorf(`backend is %.40s, want "pil" or "tensor"`, raw)
		}
	}
	return nil
}

// tensorMap is affineMap for tensors: the matrix maps points that count from the images' middles.
func (c *canvas) tensorMap(w, h int, matrix affine.Matrix, filter Interpolation, fill Fill) error {
	params := changeParams{matrix: matrix, filter: filter, fill: fill, tensor: true, masked: c.fillGiven(fill) != nil}
	return c.change(change{work: mapImage, width: w, height: h, params: params})
}

// fillGiven returns a fill as torchvision has it: of a tensor, policies have none by default, and the others black.
func (c *canvas) fillGiven(fill Fill) any {
	switch c.op.(type) {
	case RandomRotation, RandomAffine:
		return fill
	}
	if c.tensor && fill == (Fill{}) {
		return nil
	}
	return fill
}

// orMiddle returns a centre, or the image's middle for nil.
func orMiddle(center *[2]float64, w, h int) [2]float64 {
	if center != nil {
		return *center
	}
	return [2]float64{float64(w) * 0.5, float64(h) * 0.5}
}

// fromMiddle is orMiddle, counted from the image's middle.
func fromMiddle(center *[2]float64, w, h int) [2]float64 {
	at, middle := orMiddle(center, w, h), orMiddle(nil, w, h)
	return [2]float64{at[0] - middle[0], at[1] - middle[1]}
}

// expandedTensor returns the size of a result that holds a whole turned w × h tensor: torchvision's
// _compute_affine_output_size_tensor, in float32.
func expandedTensor(w, h int, m affine.Matrix) (int, int) {
	half := [2]float32{float32(w) / 2, float32(h) / 2}
	var size [2]int
	for i := range size {
		a, b, c := float32(m[3*i]), float32(m[3*i+1]), float32(m[3*i+2])
		low, high := float32(math.Inf(1)), float32(math.Inf(-1))
		for corner := range 4 {
			x, y := half[0]*float32(corner&1*2-1), half[1]*float32(corner&2-1)
			at := libm.FMA32(y, b, float32(x*a)) + c + half[i]
			low, high = min(low, at), max(high, at)
		}
		// The fifth decimal is cut off.
		size[i] = int(math.Ceil(cutOff(high)) - math.Floor(cutOff(low)))
	}
	return size[0], size[1]
}

func cutOff(x float32) float64 {
	return float64(float32(math.Trunc(float64(x*10000))) * 1e-4)
}

// on returns how pixels of an image of Pillow, or of a tensor, are resized.
func (m resizing) on(tensor bool) resizing {
	plain := m.plain
	if m.plain = false; !tensor {
		if m.filter == resample.NearestExact {
			m.filter = Nearest
		}
		return m
	}
	m.algorithm = resample.Torch
	switch {
	case m.filter == Nearest:
		m.filter = resample.TensorNearest
	case plain && m.filter == Bilinear:
		m.filter = resample.PlainBilinear
	case plain && m.filter == Bicubic:
		m.filter = resample.PlainBicubic
	}
	return m
}

// inverseTensor is _get_inverse_affine_matrix of transforms.v2, whose arithmetic has another order than that of transforms.
func (p *affineParams) inverseTensor(center [2]float64) affine.Matrix {
	rot, shearY := libm.Radians(p.angle), libm.Radians(p.shear[1])
	tanX := libm.Tan(libm.Radians(p.shear[0]))
	sinRot, cosRot := libm.SinCos(rot)
	sin, cos := libm.SinCos(rot - shearY)
	_, cosY := libm.SinCos(shearY)
	a, c := cos/cosY, sin/cosY
	b := -(float64(a*tanX) + sinRot)
	d := cosRot - float64(c*tanX)
	m := affine.Matrix{d / p.scale, -b / p.scale, 0, -c / p.scale, a / p.scale, 0}
	x, y := center[0]+p.translate[0], center[1]+p.translate[1]
	m[2] = center[0] - float64(m[0]*x) - float64(m[1]*y)
	m[5] = center[1] - float64(m[3]*x) - float64(m[4]*y)
	return m
}
