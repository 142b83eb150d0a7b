package transform

import (
	"errors"
	"fmt"
)

// ToImage is torchvision.transforms.v2.ToImage. Operations after it have the bits that torchvision.transforms.v2 gives uint8
// tensors on a CPU with AVX2; those before it have the bits of images of Pillow. It changes no pixel itself.
type ToImage struct{}

func (ToImage) random() bool { return false }

func (ToImage) apply(c *canvas) error {
	if !c.tensor {
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
