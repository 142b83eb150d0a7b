package pixels

import (
	"image"
	"slices"

	"github.com/imgfeed/imgfeed/transform/kernel"
	"github.com/imgfeed/imgfeed/transform/resample"
)

// rawCodec stores the pixels as they are, row after row behind the header.
type rawCodec struct {
	base
	copier *resample.Resampler
}

func newRaw(b base, level kernel.Level) *rawCodec {
	return &rawCodec{base: b, copier: resample.New(level)}
}

func (c *rawCodec) Encode(dst, rgb []byte, stride, w, h int) ([]byte, error) {
	if err := checkSource(rgb, stride, w, h); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, headerBytes+3*w*h+SlackBytes)
	dst = header{width: w, height: h, bandLog: c.params.bandLog(), codec: idNone}.append(dst)
	for y := range h {
		dst = append(dst, rgb[y*stride:][:3*w]...)
	}
	return dst, nil
}

func (c *rawCodec) Decode(dst []byte, stride int, blob []byte, r image.Rectangle) error {
	h, err := c.open(blob, r)
	if err != nil {
		return err
	}
	t, err := rowsTarget(dst, stride, r)
	if err != nil {
		return err
	}
	for y := range r.Dy() {
		copy(t.pix[y*t.rowBytes:], blob[headerBytes+3*((r.Min.Y+y)*h.width+r.Min.X):][:3*t.width])
	}
	return nil
}

func (c *rawCodec) DecodeTo(out resample.Output, blob []byte, r image.Rectangle) error {
	h, err := c.open(blob, r)
	if err != nil {
		return err
	}
	if _, err := outputTarget(out, r); err != nil {
		return err
	}
	return c.copier.Copy(out, blob[headerBytes:], 3*h.width, image.Rect(0, 0, h.width, h.height), r)
}

func (c *rawCodec) open(blob []byte, r image.Rectangle) (header, error) {
	h, err := open(blob, idNone, r)
	if err != nil {
		return h, err
	}
	if want := headerBytes + 3*h.width*h.height; len(blob) != want {
		return h, &FormatError{Offset: len(blob), Msg: "the length is not what the width and height ask for"}
	}
	return h, nil
}
