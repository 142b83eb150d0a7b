package imagefile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"slices"

	"golang.org/x/image/riff"
	"golang.org/x/image/webp"
)

// WebP is Google's format (RFC 9649), lossy (VP8, RFC 6386) or lossless. Only the first frame is decoded.
const WebP Format = 4

var webpFormat = format{
	name:       "webp",
	magic:      []string{"RIFF????WEBP"},
	extensions: []string{"webp"},
	config:     webp.DecodeConfig,
	bytesMin:   func(image.Config, []byte) int { return 0 }, // a lossless image of one colour takes no bits
	decode:     decodeWebP,
}

// decodeWebP decodes the first frame onto the canvas, without alpha. Like Pillow it surrounds the frame with black,
// whatever background the file requests.
func decodeWebP(dst *RGB, config image.Config, data []byte) error {
	if int(binary.LittleEndian.Uint32(data[4:])) > len(data)-8 {
		return io.ErrUnexpectedEOF
	}
	still, frameRect, err := stillWebP(data)
	if err != nil {
		return err
	}
	canvas := image.Rect(0, 0, config.Width, config.Height)
	if !frameRect.In(canvas) {
		return fmt.Errorf("the frame covers %v, the canvas has %v pixels", frameRect, canvas.Max)
	}
	img, err := webp.Decode(bytes.NewReader(still))
	if err != nil {
		return err
	}
	dst.Resize(config.Width, config.Height)
	stride, pix := 3*config.Width, dst.Pix
	if !frameRect.Empty() && frameRect != canvas {
		clear(pix)
		pix = pix[frameRect.Min.Y*stride+3*frameRect.Min.X:]
	}
	switch m := img.(type) {
	case *image.NRGBA:
		for y := range m.Rect.Dy() {
			copyPixels(pix[y*stride:][:3*m.Rect.Dx()], m.Pix[y*m.Stride:], 4, 1)
		}
	case *image.YCbCr:
		writeRGB(pix, stride, m)
	case *image.NYCbCrA:
		writeRGB(pix, stride, &m.YCbCr)
	}
	return nil
}

// Layout of an extended file and of a frame (RFC 9649, section 2.7).
const (
	webpFlagsAt    = 20   // the flags, before three reserved bytes and the canvas
	webpCanvasAt   = 24   // width less one and height less one, three bytes each
	webpImageAt    = 30   // the chunks after VP8X
	webpAlpha      = 0x10 // flag: the next image has a chunk of alpha
	webpFrameBytes = 16   // position, size, duration, flags
)

// stillWebP returns the first image of a file as a file for the decoder, which does not read animations, and the rectangle of an
// animation's frame. It reads the headers of all chunks of an extended file, because Pillow does not read a damaged file at all.
func stillWebP(data []byte) (still []byte, frameRect image.Rectangle, err error) {
	if string(data[12:16]) != "VP8X" {
		return data, frameRect, nil
	}
	still = slices.Clone(data[:webpImageAt])
	still[webpFlagsAt] = 0
	_, chunks, err := riff.NewReader(bytes.NewReader(data))
	for err == nil {
		var name riff.FourCC
		var content io.Reader
		if name, _, content, err = chunks.Next(); err != nil {
			break
		}
		switch string(name[:]) {
		case "ALPH":
			still[webpFlagsAt] = webpAlpha
		case "ANMF":
			if !frameRect.Empty() {
				continue // not the first
			}
			frame, _ := io.ReadAll(content) // chunks.Next returns its error
			if len(frame) < webpFrameBytes {
				return nil, frameRect, io.ErrUnexpectedEOF
			}
			frameRect.Max = image.Pt(1+uint24(frame[6:]), 1+uint24(frame[9:]))
			frameRect = frameRect.Add(image.Pt(2*uint24(frame), 2*uint24(frame[3:])))
			copy(still[webpCanvasAt:], frame[6:12])
			still = append(still, frame[webpFrameBytes:]...)
			if bytes.HasPrefix(frame[webpFrameBytes:], []byte("ALPH")) {
				still[webpFlagsAt] = webpAlpha
			}
		}
	}
	if err != io.EOF {
		return nil, frameRect, err
	}
	if frameRect.Empty() {
		still = append(still, data[webpImageAt:]...)
	}
	binary.LittleEndian.PutUint32(still[4:], uint32(len(still)-8))
	return still, frameRect, nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// The conversion to RGB from VP8's colour space (RFC 6386, section 9.2): 8-bit Y'CbCr by ITU-R BT.601 in its limited range, with one chroma
// sample for 2×2 pixels. Y is from 16 to 235, U and V from 16 to 240. RFC 9649 leaves the conversion to the decoder; these numbers give
// libwebp's bits. With the stored Y, U and V, and all products scaled down to 6 bits of fraction:
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

// writeRGB writes the pixels to dst, rows stride bytes apart. A pixel's chroma is the weighted mean of the four nearest samples, with
// weights 9, 3, 3 and 1 (a triangle in each direction), rounded once. At the borders the outermost sample is repeated.
func writeRGB(dst []byte, stride int, m *image.YCbCr) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	chromaWidth, chromaHeight := (width+1)/2, (height+1)/2
	// Columns of both chromas, weighted by 3 and 1; one more on either side repeats the outermost.
	columns := make([][2]int32, chromaWidth+2)
	for y := range height {
		near := y / 2
		far := min(max(near-1+y%2*2, 0), chromaHeight-1)
		u, uFar := m.Cb[near*m.CStride:][:chromaWidth], m.Cb[far*m.CStride:][:chromaWidth]
		v, vFar := m.Cr[near*m.CStride:][:chromaWidth], m.Cr[far*m.CStride:][:chromaWidth]
		inner := columns[1:][:chromaWidth]
		for i := range inner {
			inner[i] = [2]int32{3*int32(u[i]) + int32(uFar[i]), 3*int32(v[i]) + int32(vFar[i])}
		}
		columns[0], columns[chromaWidth+1] = columns[1], columns[chromaWidth]
		writeRGBRow(dst[y*stride:][:3*width], m.Y[y*m.YStride:][:width], columns)
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
