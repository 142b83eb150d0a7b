package transform

import (
	"encoding/json"
	"fmt"
)

// ColorJitter is torchvision.transforms.ColorJitter(brightness, contrast, saturation, hue): up to four adjustments, in a random
// order.
type ColorJitter struct {
	// Brightness, Contrast and Saturation are the ranges of their factors, at least 0; Hue that of the turn, within −0.5 to 0.5.
	// What is nil is not adjusted. In JSON each may be one number x, too, which stands for 1 − x (but not below 0) to 1 + x, and
	// −x to x for hue.
	Brightness, Contrast, Saturation, Hue *[2]float64
}

func (ColorJitter) Name() string { return "ColorJitter" }

func (o ColorJitter) String() string {
	return object(o, "brightness", jitterJSON(o.Brightness), "contrast", jitterJSON(o.Contrast),
		"saturation", jitterJSON(o.Saturation), "hue", jitterJSON(o.Hue))
}

func jitterJSON(r *[2]float64) any {
	if r == nil {
		return 0
	}
	return *r
}

func (o ColorJitter) read(p *parameters) Op {
	o.Brightness = p.jitter("brightness", 1)
	o.Contrast = p.jitter("contrast", 1)
	o.Saturation = p.jitter("saturation", 1)
	o.Hue = p.jitter("hue", 0)
	return o
}

// jitter reads the range of an adjustment that does nothing at center; nil is no adjustment.
func (p *parameters) jitter(name string, center float64) *[2]float64 {
	var given json.RawMessage
	p.decode(name, "a number or two", &given)
	var one float64
	var list []float64
	r := [2]float64{center, center}
	switch {
	case given == nil:
	case json.Unmarshal(given, &one) == nil && one >= 0:
		if r = [2]float64{center - one, center + one}; center == 1 {
			r[0] = max(r[0], 0)
		}
	case json.Unmarshal(given, &one) == nil:
		p.fail("%s is %v: if it is a single number, it must be non negative", name, one)
	case json.Unmarshal(given, &list) == nil && len(list) == 2:
		r = [2]float64(list)
	default:
		p.fail("%s is %.100s, want a number or [low, high]", name, given)
	}
	if r == [2]float64{center, center} {
		return nil
	}
	return &r
}

func (o ColorJitter) prepare() (Op, error) {
	for _, part := range []struct {
		name      string
		given     *[2]float64
		low, high float64
	}{
		{"brightness", o.Brightness, 0, factorMax}, {"contrast", o.Contrast, 0, factorMax},
		{"saturation", o.Saturation, 0, factorMax}, {"hue", o.Hue, -0.5, 0.5},
	} {
		if r := part.given; r != nil && !(part.low <= r[0] && r[0] <= r[1] && r[1] <= part.high) {
			return nil, fmt.Errorf("%s values should be between %g and %g, but got %v", part.name, part.low, part.high, *r)
		}
	}
	return o, nil
}

func (o ColorJitter) random() bool {
	return o.Brightness != nil || o.Contrast != nil || o.Saturation != nil || o.Hue != nil
}

func (ColorJitter) outputSize(h, w int) (int, int) { return h, w }

// apply draws the order of the four, then a factor for each that there is.
func (o ColorJitter) apply(c *canvas) error {
	order := [4]int{0, 1, 2, 3}
	c.draws.shuffle(order[:])
	ranges := [4]*[2]float64{o.Brightness, o.Contrast, o.Saturation, o.Hue}
	var factors [4]float64
	for i, r := range ranges {
		if r != nil {
			factors[i] = c.draws.uniform(r[0], r[1])
		}
	}
	for _, i := range order {
		if ranges[i] == nil {
			continue
		}
		var err error
		switch i {
		case 0:
			err = c.brightness(factors[i])
		case 1:
			err = c.contrast(factors[i])
		case 2:
			err = c.saturation(factors[i])
		default:
			err = c.hue(factors[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
