package transform

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// AugMix is torchvision.transforms.AugMix(severity, mixture_width, chain_depth, alpha, all_ops, interpolation, fill).
// torchvision first converts a Pillow image to a tensor. Here the augmentations have the bits that they have on Pillow
// images, and only the mixing uses the float32 arithmetic of tensors.
type AugMix struct {
	// Severity is the number of magnitudes in use, of ten.
	Severity int `param:"severity" default:"3" range:"1 10"`
	// Width is the number of chains, and Depth the number of augmentations in each; 0 or less draws 1 to 3.
	Width int `param:"mixture_width" default:"3" range:"1 32"`
	Depth int `param:"chain_depth" default:"-1" range:"-Inf 32"`
	// Alpha is the parameter of the distributions of weights.
	Alpha float64 `param:"alpha" default:"1" range:"1e-2 1e6"`
	// AllOps includes brightness, contrast, colour and sharpness.
	AllOps        bool          `param:"all_ops" default:"true"`
	Interpolation Interpolation `param:"interpolation" default:"bilinear" is:"map"`
	Fill          Fill          `param:"fill" is:"map fill" default:"0"`
}

// mixWidthMax and mixDepthMax bound the chains, and alpha's bounds the weights' distributions, of timm's too.
const (
	mixWidthMax = 32
	mixDepthMax = 32
	alphaMin    = 1e-2
	alphaMax    = 1e6
	mixBins     = 10
)

// apply draws how much of the image stays and the chains' weights; then each chain, its depth first.
func (o AugMix) apply(c *canvas) error {
	var parts [2]float32
	var weights [mixWidthMax]float32
	c.draws.dirichlet(o.Alpha, parts[:])
	c.draws.dirichlet(o.Alpha, weights[:o.Width])
	for i := range o.Width {
		weights[i] *= parts[1]
	}
	return c.mix(mixture{share: parts[0], weights: weights[:o.Width], factor: 1, depth: o.Depth}, o.step)
}

// step does one augmentation of a chain.
func (o AugMix) step(c *canvas) error {
	augmentations := mixSpace.augmentations
	if !o.AllOps {
		augmentations = augmentations[:mixFewer]
	}
	a, k := augmentations[c.draws.below(len(augmentations))], 0
	if leveled(a) {
		k = c.draws.below(o.Severity)
	}
	return c.augmentSigned(&mixSpace, a, k, mixBins, o.Interpolation, o.Fill)
}

// A mixture is a weighted sum of several augmented copies of an image.
type mixture struct {
	share   float32   // weight of the image itself in the sum
	weights []float32 // weights of the chains' results
	factor  float32   // blends the image with the sum, as Pillow does; 1 replaces it by the sum
	depth   int       // number of augmentations in a chain; 0 or less draws 1 to 3
	blends  bool      // no sum: the image is blended with each chain's result in turn, by its weight
}

// mix replaces the image by its mixture with one chain of steps for each weight.
func (c *canvas) mix(m mixture, step func(c *canvas) error) error {
	img, err := c.inMemory()
	if err != nil {
		return err
	}
	e, log := c.engine, c.log
	e.unmixed = imagefile.Grown(e.unmixed, len(img.Pix))
	copy(e.unmixed, img.Pix)
	if m.blends {
		e.blended = imagefile.Grown(e.blended, len(img.Pix))
		copy(e.blended, img.Pix)
	} else {
		e.sums = pointwise.Start(e.sums, img.Pix, m.share)
	}
	var chains []string
	for i, weight := range m.weights {
		if i > 0 {
			copy(img.Pix, e.unmixed)
		}
		if log != nil {
			c.log = &recorder{}
		}
		depth := m.depth
		if depth <= 0 {
			depth = 1 + c.draws.below(3)
		}
		for range depth {
			if err := step(c); err != nil {
				return err
			}
		}
		if img, err = c.inMemory(); err != nil {
			return err
		}
		if log != nil {
			chains = append(chains, c.log.String())
		}
		if m.blends {
			pointwise.Blend(e.blended, e.blended, img.Pix, weight)
		} else {
			pointwise.Add(e.sums, img.Pix, weight)
		}
	}
	if m.blends {
		copy(img.Pix, e.blended)
	} else if pointwise.Finish(img.Pix, e.sums); m.factor != 1 {
		pointwise.Blend(img.Pix, e.unmixed, img.Pix, m.factor)
	}
	if c.log = log; log != nil {
		m.record(log, json.RawMessage("["+strings.Join(chains, ", ")+"]"))
	}
	return nil
}

// record appends the mixture of the chains' results; the chains are records.
func (m mixture) record(log *recorder, chains json.RawMessage) {
	weights := slices.Clone(m.weights)
	if m.blends {
		log.add("blends", "weights", weights, "chains", chains)
	} else {
		log.add("mixture", "share", m.share, "weights", weights, "chains", chains, "factor", m.factor)
	}
}
