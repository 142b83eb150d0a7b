package pixelcodec

import (
	"image"
	"slices"
)

// rawCodec stores the raw pixels, row after row behind the header.
type rawCodec struct {
	base
	row rowPair // only the top row is used, to mirror pixels and to split planes
}

func (c *rawCodec) Encode(dst, rgb []byte, stride, w, h int) ([]byte, error) {
	if err := checkSource(rgb, stride, w, h); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, headerBytes+3*w*h+SlackBytes)
	dst = header{width: w, height: h, bandLog: c.params.bandLog(), codec: c.id}.append(dst)
	for y := range h {
		dst = append(dst, rgb[y*stride:][:3*w]...)
	}
	return dst, nil
}

// decode copies the pixels of r if possible, and otherwise converts them by way of planes.
func (c *rawCodec) decode(t target, blob []byte, h header, r image.Rectangle) error {
	if want := headerBytes + 3*h.width*h.height; len(blob) != want {
		return &FormatError{Offset: len(blob), Msg: "the length is not what the width and height ask for"}
	}
	t.choose(&c.kernels)
	if t.nonTemporal {
		defer c.kernels.fence()
	}
	plain := t.planeBytes == 0 && !t.flip
	if !plain {
		c.row.resize((t.width + chunkColumns - 1) / chunkColumns)
	}
	c.begin(r.Dy())
	for y := range r.Dy() {
		c.fetch()
		src := blob[headerBytes+3*((r.Min.Y+y)*h.width+r.Min.X):][:3*t.width]
		switch {
		case !plain:
			c.kernels.split(c.row.top, c.row.stride, src, t.width)
			t.emit(&c.kernels, &c.row, 0, y, 1)
		case t.nonTemporal:
			c.kernels.streamCopy(t.pix[y*t.rowBytes:][:t.rowBytes], src)
		default:
			copy(t.pix[y*t.rowBytes:], src)
		}
	}
	return nil
}
