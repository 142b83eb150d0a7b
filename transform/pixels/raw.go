package pixels

import (
	"image"
	"slices"
)

// rawCodec stores the pixels as they are, row after row behind the header.
type rawCodec struct{ base }

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
	copyRows(&t, blob, h, r)
	return nil
}

func (c *rawCodec) DecodeTo(out Output, blob []byte, r image.Rectangle) error {
	h, err := c.open(blob, r)
	if err != nil {
		return err
	}
	t, err := outputTarget(out, r)
	if err != nil {
		return err
	}
	copyRows(&t, blob, h, r)
	return nil
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

// copyRows writes the pixels of r.
func copyRows(t *target, blob []byte, h header, r image.Rectangle) {
	for y := range r.Dy() {
		src := blob[headerBytes+3*((r.Min.Y+y)*h.width+r.Min.X):][:3*t.width]
		dst := t.pix[y*t.rowBytes:]
		switch {
		case t.planeBytes == 0 && !t.flip:
			copy(dst, src)
		case t.planeBytes == 0:
			mirror(dst[:3*t.width], src)
		default:
			splitPlanes(dst, t.planeBytes, src, t.flip)
		}
	}
}

// mirror writes the pixels of src in reverse order.
func mirror(dst, src []byte) {
	for j := len(dst) - 3; len(src) >= 3; j -= 3 {
		d := dst[j:][:3]
		d[0], d[1], d[2] = src[0], src[1], src[2]
		src = src[3:]
	}
}

// splitPlanes writes the pixels of src to three planes, in reverse order if flip.
func splitPlanes(dst []byte, planeBytes int, src []byte, flip bool) {
	w := len(src) / 3
	red, green, blue := dst[:w], dst[planeBytes:][:w], dst[2*planeBytes:][:w]
	at, step := 0, 1
	if flip {
		at, step = w-1, -1
	}
	for ; len(src) >= 3; at += step {
		red[at], green[at], blue[at] = src[0], src[1], src[2]
		src = src[3:]
	}
}
