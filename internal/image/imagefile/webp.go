package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
)

// WebP is Google's format (RFC 9649), lossy (VP8, RFC 6386) or lossless. Only the first frame is decoded.
const WebP Format = 4

var webpFormat = format{
	name:       "webp",
	magic:      []string{"RIFF????WEBP"},
	extensions: []string{"webp"},
	config:     webpConfig,
	bytesMin:   func(image.Config, []byte) int { return 0 }, // a lossless image of one colour takes no bits
	decode:     decodeWebP,
}

// Layout of a file and its chunks (RFC 9649, section 2).
const (
	webpHeaderBytes = 12 // "RIFF", size of the rest, "WEBP"
	webpChunkBytes  = 8  // name, size of the content
	webpVP8XBytes   = 10 // flags, three reserved bytes, canvas
	webpANIMBytes   = 6  // background, loops
	webpANMFBytes   = 16 // place, size, duration, flags
	vp8HeaderBytes  = 10 // RFC 6386, section 9.1
	vp8lHeaderBytes = 5
	// of VP8X
	webpAnimation = 1 << 1
	webpAlpha     = 1 << 4
	webpFlags     = 0x3e
)

// A webpFrame is a still image or a frame of an animation: its content, and its position on the canvas.
type webpFrame struct {
	box      image.Rectangle
	alpha    []byte // content of ALPH, which goes with lossy
	lossy    []byte // content of VP8
	lossless []byte // content of VP8L
}

func (f *webpFrame) hasImage() bool { return f.lossy != nil || f.lossless != nil }

// webpConfig returns the size of the canvas, by the first chunk.
func webpConfig(r io.Reader) (config image.Config, err error) {
	var head [webpHeaderBytes + webpChunkBytes + webpVP8XBytes]byte
	n, err := io.ReadFull(r, head[:])
	if err == io.ErrUnexpectedEOF && n > webpHeaderBytes+webpChunkBytes {
		err = nil // a lossless image may be that small
	}
	if err != nil {
		return config, err
	}
	first := head[webpHeaderBytes:n]
	size, err := webpSize(string(first[:4]), first[webpChunkBytes:])
	config.Width, config.Height = size.X, size.Y
	return config, err
}

// webpSize returns the size in a file's or an image's first chunk.
func webpSize(chunk string, content []byte) (image.Point, error) {
	switch chunk {
	case "VP8X":
		if len(content) < webpVP8XBytes {
			return image.Point{}, io.ErrUnexpectedEOF
		}
		return image.Pt(1+uint24(content[4:]), 1+uint24(content[7:])), nil
	case "VP8 ":
		return vp8Size(content)
	case "VP8L":
		return vp8lSize(content)
	}
	return image.Point{}, fmt.Errorf("the first chunk is %q, none of VP8, VP8L and VP8X", chunk)
}

// vp8Size reads the header of a lossy image (RFC 6386, section 9.1). It must be a key frame, and shown.
func vp8Size(content []byte) (size image.Point, err error) {
	if len(content) < vp8HeaderBytes {
		return size, io.ErrUnexpectedEOF
	}
	tag := uint24(content)
	const versionMax = 3
	switch {
	case tag&1 != 0:
		return size, errors.New("the lossy image needs frames before it")
	case tag>>1&7 > versionMax:
		return size, fmt.Errorf("the lossy image is of VP8's version %d, the last is %d", tag>>1&7, versionMax)
	case tag>>4&1 == 0:
		return size, errors.New("the lossy image is a frame that is not shown")
	case string(content[3:6]) != "\x9d\x01\x2a":
		return size, errors.New("the lossy image lacks its start code")
	}
	const bits = 1<<14 - 1 // above are hints on scaling
	size.X = int(binary.LittleEndian.Uint16(content[6:])) & bits
	size.Y = int(binary.LittleEndian.Uint16(content[8:])) & bits
	if size.X == 0 || size.Y == 0 {
		return size, fmt.Errorf("the lossy image has %d×%d pixels", size.X, size.Y)
	}
	return size, nil
}

// vp8lSize reads the header of a lossless image (RFC 9649, section 3.4).
func vp8lSize(content []byte) (size image.Point, err error) {
	if len(content) < vp8lHeaderBytes {
		return size, io.ErrUnexpectedEOF
	}
	if content[0] != 0x2f {
		return size, errors.New("the lossless image lacks its signature")
	}
	const bits = 1<<14 - 1
	word := binary.LittleEndian.Uint32(content[1:])
	return image.Pt(1+int(word&bits), 1+int(word>>14&bits)), nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// parseWebP returns the size of the canvas and the first frame. It checks the chunks of all frames, because Pillow does
// not read a damaged file at all.
func parseWebP(data []byte) (canvas image.Point, frame webpFrame, err error) {
	if len(data) < webpHeaderBytes {
		return canvas, frame, io.ErrUnexpectedEOF
	}
	end := int(binary.LittleEndian.Uint32(data[4:])) + 8
	if end > len(data) {
		return canvas, frame, io.ErrUnexpectedEOF
	}
	data = data[:end] // ignore data after the file
	if end < webpHeaderBytes {
		return canvas, frame, fmt.Errorf("the file says that it has %d bytes", end)
	}
	chunk, content, next, err := webpChunk(data, webpHeaderBytes)
	if err != nil {
		return canvas, frame, err
	}
	if canvas, err = webpSize(chunk, content); err != nil {
		return canvas, frame, err
	}
	if chunk == "VP8X" {
		frame, err = parseExtendedWebP(data, next, canvas, content[0])
		return canvas, frame, err
	}
	if remaining := end - next; remaining > 0 && remaining < webpChunkBytes {
		return canvas, frame, fmt.Errorf("%d bytes after the chunk %q are too few for another", remaining, chunk)
	}
	return canvas, frame, frame.add(chunk, content)
}

// webpChunk returns name and content of the chunk at data[at:], and where the next one begins (RFC 9649, section 2.3).
func webpChunk(data []byte, at int) (name string, content []byte, next int, err error) {
	if len(data)-at < webpChunkBytes {
		return "", nil, 0, io.ErrUnexpectedEOF
	}
	head := data[at : at+webpChunkBytes]
	n := int(binary.LittleEndian.Uint32(head[4:]))
	start := at + webpChunkBytes
	if n+n&1 > len(data)-start {
		return "", nil, 0, fmt.Errorf("the chunk %q at byte %d has %d bytes, of which %d are there", head[:4], at, n, len(data)-start)
	}
	return string(head[:4]), data[start : start+n], start + n + n&1, nil
}

// parseExtendedWebP parses the chunks after VP8X (RFC 9649, section 2.7): a still image as large as the canvas, or
// frames within it. It skips other chunks.
func parseExtendedWebP(data []byte, at int, canvas image.Point, flags byte) (first webpFrame, err error) {
	if flags&^webpFlags != 0 {
		return first, fmt.Errorf("the flags %#02x are unknown", flags&^webpFlags)
	}
	animated := flags&webpAnimation != 0
	begun := false
	for at < len(data) {
		chunk, content, next, err := webpChunk(data, at)
		if err != nil {
			return first, err
		}
		frame := webpFrame{}
		switch chunk {
		case "VP8X":
			err = errors.New("there are two headers of extended files")
		case "ANIM":
			if begun = true; len(content) < webpANIMBytes {
				err = io.ErrUnexpectedEOF
			}
		case "ANMF":
			if !begun || !animated {
				err = errors.New("a frame of no animation")
			} else if frame, err = parseWebPFrame(content, canvas); err == nil && !first.hasImage() {
				first = frame
			}
		case "ALPH", "VP8 ", "VP8L":
			if animated || begun {
				err = errors.New("an image between the frames of an animation")
			} else if chunk != "ALPH" || flags&webpAlpha != 0 {
				err = first.add(chunk, content)
			}
		}
		if err != nil {
			return first, fmt.Errorf("the chunk %q at byte %d: %w", chunk, at, err)
		}
		at = next
	}
	switch {
	case !first.hasImage():
		return first, errors.New("there is no image in the file")
	case !animated && first.box.Max != canvas:
		return first, fmt.Errorf("the image has %v pixels, the canvas %v", first.box.Max, canvas)
	}
	return first, nil
}

// parseWebPFrame parses an ANMF chunk's content: place and size, then chunks (RFC 9649, section 2.7.1.2). Its blending
// mode does not matter, because there is nothing below the first frame.
func parseWebPFrame(content []byte, canvas image.Point) (frame webpFrame, err error) {
	if len(content) < webpANMFBytes {
		return frame, io.ErrUnexpectedEOF
	}
	place := image.Pt(2*uint24(content), 2*uint24(content[3:]))
	for at := webpANMFBytes; !frame.hasImage(); {
		chunk, part, next, err := webpChunk(content, at)
		if err == nil {
			err = frame.add(chunk, part)
		}
		if err != nil {
			return frame, err
		}
		at = next
	}
	frame.box = frame.box.Add(place)
	if !frame.box.In(image.Rectangle{Max: canvas}) {
		return frame, fmt.Errorf("the frame's place is %v, the canvas has %v pixels", frame.box, canvas)
	}
	return frame, nil
}

// add adds a chunk of an image: its alpha, or the image itself, which has the size.
func (f *webpFrame) add(chunk string, content []byte) (err error) {
	switch chunk {
	case "ALPH":
		if f.alpha != nil || f.hasImage() {
			return errors.New("alpha that goes with no image")
		}
		f.alpha = content
		return nil
	case "VP8 ":
		f.box.Max, err = vp8Size(content)
	case "VP8L":
		f.box.Max, err = vp8lSize(content)
	default:
		return fmt.Errorf("the chunk %q stands where an image should", chunk)
	}
	switch {
	case err != nil:
		return err
	case f.hasImage():
		return errors.New("there are two images")
	case chunk == "VP8 ":
		f.lossy = content
	case f.alpha != nil:
		return errors.New("a lossless image with the alpha of a lossy one")
	default:
		f.lossless = content
	}
	return nil
}

// decodeWebP decodes the first frame onto the canvas, without alpha. Like Pillow it surrounds the frame with black,
// whatever background the file requests.
func decodeWebP(dst *RGB, _ image.Config, data []byte) error {
	canvas, frame, err := parseWebP(data)
	if err != nil {
		return err
	}
	dst.Resize(canvas.X, canvas.Y)
	if frame.box != (image.Rectangle{Max: canvas}) {
		clear(dst.Pix)
	}
	stride := 3 * canvas.X
	pix := dst.Pix[frame.box.Min.Y*stride+3*frame.box.Min.X:]
	if frame.lossless != nil {
		return decodeVP8L(pix, stride, frame.lossless)
	}
	if err := checkWebPAlpha(frame.alpha, frame.box.Size()); err != nil {
		return fmt.Errorf("alpha: %w", err)
	}
	return decodeVP8(pix, stride, frame.lossy, frame.box.Size())
}

func decodeVP8L(pix []byte, stride int, data []byte) error {
	img, err := vp8l.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	m, ok := img.(*image.NRGBA)
	if !ok {
		return fmt.Errorf("the decoder gives %T", img)
	}
	for y := range m.Rect.Dy() {
		copyPixels(pix[y*stride:][:3*m.Rect.Dx()], m.Pix[y*m.Stride:], 4, 1)
	}
	return nil
}

func decodeVP8(pix []byte, stride int, data []byte, size image.Point) error {
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(data), len(data))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return err
	}
	m, err := d.DecodeFrame()
	if err != nil {
		return err
	}
	planes := limitedYUV{y: m.Y, u: m.Cb, v: m.Cr, yStride: m.YStride, uvStride: m.CStride, width: size.X, height: size.Y}
	planes.writeRGB(pix, stride)
	return nil
}

// checkWebPAlpha decodes a lossy image's alpha (RFC 9649, section 2.7.1.2), and drops it: a file with damaged
// alpha is damaged.
func checkWebPAlpha(alpha []byte, size image.Point) error {
	if alpha == nil {
		return nil
	}
	if len(alpha) == 0 {
		return io.ErrUnexpectedEOF
	}
	// From the low bits: method, filter, 0 or 1 for a preprocessing that does not affect decoding, and two reserved
	// bits.
	const reserved = 0xe0
	switch method := alpha[0] & 3; {
	case alpha[0]&reserved != 0:
		return fmt.Errorf("the header %#02x is unknown", alpha[0])
	case method == 0: // uncompressed
		if len(alpha)-1 < size.X*size.Y {
			return io.ErrUnexpectedEOF
		}
		return nil
	case method == 1: // the green channel of a lossless image without a header
		var head [vp8lHeaderBytes]byte
		head[0] = 0x2f
		binary.LittleEndian.PutUint32(head[1:], uint32(size.X-1)|uint32(size.Y-1)<<14)
		_, err := vp8l.Decode(io.MultiReader(bytes.NewReader(head[:]), bytes.NewReader(alpha[1:])))
		return err
	default:
		return fmt.Errorf("packed by the unknown method %d", method)
	}
}

// A limitedYUV is an image in VP8's colour space (RFC 6386, section 9.2): 8-bit Y'CbCr by ITU-R BT.601 in its limited
// range, with one chroma sample for 2×2 pixels. Y is from 16 to 235, the others from 16 to 240.
type limitedYUV struct {
	y, u, v           []byte
	yStride, uvStride int
	width, height     int
}

// The conversion to RGB. RFC 9649 leaves it to the decoder; these numbers give libwebp's bits. With the stored Y, U and
// V, and all products scaled down to 6 bits of fraction:
//
//	R = Y·1.164 + V·1.596 − 222.4
//	G = Y·1.164 − U·0.392 − V·0.813 + 136.1
//	B = Y·1.164 + U·2.017 − 276.3
//
// Factors have 14 bits of fraction. 8 bits of each product are cut off before the sum. White, (235, 128, 128):
// 235·19077>>8 = 17512, 128·26149>>8 = 13074, R = (17512 + 13074 − 14234)>>6 = 255.
const (
	yuvY  = 19077 // 255/219
	yuvRV = 26149 // 255/112 · (1 − Kr)
	yuvGU = 6419  // 255/112 · (1 − Kb) · Kb/Kg
	yuvGV = 13320 // 255/112 · (1 − Kr) · Kr/Kg
	yuvBU = 33050 // 255/112 · (1 − Kb)

	// These subtract 16 from Y and 128 from U and V, and add a half for rounding, with 6 bits of fraction.
	yuvR0, yuvG0, yuvB0 = -14234, 8708, -17685
)

// writeRGB writes the pixels to dst, rows stride bytes apart. A pixel's chroma is the weighted mean of the four nearest
// samples, with weights 9, 3, 3 and 1 (a triangle in each direction), rounded once. At the borders the outermost sample
// is repeated.
func (m *limitedYUV) writeRGB(dst []byte, stride int) {
	chromaWidth, chromaHeight := (m.width+1)/2, (m.height+1)/2
	// Columns of both chromas, weighted by 3 and 1; one more on either side repeats the outermost.
	columns := make([][2]int32, chromaWidth+2)
	for y := range m.height {
		near := y / 2
		far := min(max(near-1+y%2*2, 0), chromaHeight-1)
		u, uFar := m.u[near*m.uvStride:][:chromaWidth], m.u[far*m.uvStride:][:chromaWidth]
		v, vFar := m.v[near*m.uvStride:][:chromaWidth], m.v[far*m.uvStride:][:chromaWidth]
		inner := columns[1:][:chromaWidth]
		for i := range inner {
			inner[i] = [2]int32{3*int32(u[i]) + int32(uFar[i]), 3*int32(v[i]) + int32(vFar[i])}
		}
		columns[0], columns[chromaWidth+1] = columns[1], columns[chromaWidth]
		writeRGBRow(dst[y*stride:][:3*m.width], m.y[y*m.yStride:][:m.width], columns)
	}
}

// writeRGBRow converts a row. Pixels 2i and 2i+1 lie in column 1+i of the chromas, the first one nearer to the column
// before, the second one nearer to the column after it.
func writeRGBRow(dst, luma []byte, columns [][2]int32) {
	left, here := columns[0], columns[1]
	for i, right := range columns[2:] {
		writePixel(dst, luma[2*i], (3*here[0]+left[0]+8)>>4, (3*here[1]+left[1]+8)>>4)
		if 2*i+1 == len(luma) {
			return
		}
		writePixel(dst[3:], luma[2*i+1], (3*here[0]+right[0]+8)>>4, (3*here[1]+right[1]+8)>>4)
		left, here = here, right
		dst = dst[6:]
	}
}

func writePixel(dst []byte, luma byte, u, v int32) {
	y := int32(luma) * yuvY >> 8
	_ = dst[2]
	dst[0] = clipFraction(y + v*yuvRV>>8 + yuvR0)
	dst[1] = clipFraction(y - u*yuvGU>>8 - v*yuvGV>>8 + yuvG0)
	dst[2] = clipFraction(y + u*yuvBU>>8 + yuvB0)
}

// clipFraction drops 6 bits of fraction, and clips the result to a byte.
func clipFraction(v int32) byte {
	if uint32(v) < 256<<6 {
		return byte(v >> 6)
	}
	return byte(^(v >> 31)) // 0 below, 255 above
}
