package transform

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// A mixture is several images made of one, each times a weight: what AugMix does.
type mixture struct {
	share   float32   // of the image itself in the sum
	weights []float32 // of what the chains make of it
	factor  float32   // by which the image is blended with the sum, as Pillow does; 1 replaces it by the sum
	blends  bool      // there is no sum: the image is blended with what each chain makes of it, one after the other, by its weight
}

// mix makes a mixture of the image and of what chain makes of it, as often as there are weights.
func (c *canvas) mix(m mixture, chain func(c *canvas) error) error {
	img, err := c.inMemory()
	if err != nil {
		return err
	}
	e, log := c.engine, c.log
	e.kept = imagefile.Grown(e.kept, len(img.Pix))
	copy(e.kept, img.Pix)
	if m.blends {
		e.blended = imagefile.Grown(e.blended, len(img.Pix))
		copy(e.blended, img.Pix)
	} else {
		e.sums = pointwise.Start(e.sums, img.Pix, m.share)
	}
	var chains []string
	for i, weight := range m.weights {
		if i > 0 {
			copy(img.Pix, e.kept)
		}
		if log != nil {
			c.log = &recorder{}
		}
		if err := chain(c); err != nil {
			return err
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
	switch {
	case m.blends:
		copy(img.Pix, e.blended)
	default:
		if pointwise.Finish(img.Pix, e.sums); m.factor != 1 {
			pointwise.Blend(img.Pix, e.kept, img.Pix, m.factor)
		}
	}
	if c.log = log; log != nil {
		m.record(log, json.RawMessage("["+strings.Join(chains, ", ")+"]"))
	}
	return nil
}

// record appends what was mixed of what chains made, which are records.
func (m mixture) record(log *recorder, chains json.RawMessage) {
	weights := slices.Clone(m.weights)
	if m.blends {
		log.add("blends", "weights", weights, "chains", chains)
	} else {
		log.add("mixture", "share", m.share, "weights", weights, "chains", chains, "factor", m.factor)
	}
}
