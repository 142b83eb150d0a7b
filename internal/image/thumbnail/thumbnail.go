// Package thumbnail makes small pictures of RGB pixels, for people to look at in a browser.
package thumbnail

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

const (
	// losslessSide is the longer side, in pixels, of the largest picture that is stored as PNG: where single pixels are
	// visible, JPEG's blocks would be, too.
	losslessSide = 64
	jpegQuality  = 82
)

// A Picture is an encoded image for a browser.
type Picture struct {
	Width, Height int
	URL           string // a data URL
}

// Fit returns the size of a w × h image, reduced if necessary so that its longer side has side pixels.
func Fit(w, h, side int) (int, int) {
	long := max(w, h)
	if long <= side {
		return w, h
	}
	return max(1, w*side/long), max(1, h*side/long)
}

// New makes a picture of w × h pixels, RGB without gaps, reduced by [Fit].
func New(pix []byte, w, h, side int) (*Picture, error) {
	if smallW, smallH := Fit(w, h, side); smallW != w || smallH != h {
		small := resample.Output{Pix: make([]byte, 3*smallW*smallH), Width: smallW, Height: smallH}
		err := resample.New(kernel.Active()).Resize(small, resample.Scaling{
			Src: pix, Stride: 3 * w, Have: image.Rect(0, 0, w, h), SrcW: w, SrcH: h, OutW: smallW, OutH: smallH,
			Keep: image.Rect(0, 0, smallW, smallH), Filter: resample.Bilinear, Algorithm: resample.Pillow13,
		})
		if err != nil {
			return nil, err
		}
		pix, w, h = small.Pix, smallW, smallH
	}
	shown := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		from, to := pix[3*i:3*i+3], shown.Pix[4*i:4*i+4]
		to[0], to[1], to[2], to[3] = from[0], from[1], from[2], 255
	}
	kind, err := "image/jpeg", error(nil)
	var b bytes.Buffer
	if max(w, h) <= losslessSide {
		kind = "image/png"
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, shown)
	} else {
		err = jpeg.Encode(&b, shown, &jpeg.Options{Quality: jpegQuality})
	}
	return &Picture{w, h, "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(b.Bytes())}, err
}
