package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/pack"
	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/internal/resample"
	"github.com/imgfeed/imgfeed/transform"
)

// encodingFlags are the flags that say how images are stored. An empty one means its default, and an empty name jpeg.
type encodingFlags struct {
	name          string
	resize        string
	interpolation string
	resampler     string
	codec         string
}

// add defines the flags; name is the default encoding, empty if the source decides.
func (f *encodingFlags) add(c *cobra.Command, name string) {
	fl := c.Flags()
	usage := "how images are stored: jpeg (the files' own bytes) or pixels (resized once, without loss)"
	if name == "" {
		usage += " (default jpeg; pixels for CIFAR-10 and CINIC-10)"
	}
	fl.StringVar(&f.name, "encoding", name, usage)
	fl.StringVar(&f.resize, "resize", "", "pixels: 256 (the shorter side), 256x256 (height and width), max:500 (the longer side at most) or none (default 256; none for CIFAR-10 and CINIC-10)")
	fl.StringVar(&f.interpolation, "interpolation", "", "pixels: filter of the resize: nearest, box, bilinear, hamming, bicubic or lanczos (default bilinear)")
	fl.StringVar(&f.resampler, "resampler", "", "pixels: whose bits the resize gives: pillow-13 (Pillow 13) or pillow-12 (Pillow 9.4 to 12.3) (default pillow-13)")
	fl.StringVar(&f.codec, "codec", "", "pixels: "+strings.Join(pixels.Names(), ", ")+" (default "+pixels.Bitpack+")")
}

// encoder returns what the flags ask for. decoded says that the source's images are best stored as pixels of their own size, which is then the
// default.
func (f *encodingFlags) encoder(decoded bool) (pack.Encoder, error) {
	name := f.name
	if name == "" && decoded {
		name = "pixels"
	}
	switch name {
	case "", "jpeg":
		if f.resize+f.interpolation+f.resampler+f.codec != "" {
			return nil, errors.New("--resize, --interpolation, --resampler and --codec are for --encoding pixels; jpeg keeps the files' own bytes")
		}
		return pack.Originals{}, nil
	case "pixels":
		size := f.resize
		switch {
		case size == "" && decoded:
			size = "none"
		case size == "":
			size = "256"
		}
		resize, err := transform.ParseStoredResize(size, f.interpolation)
		if err != nil {
			return nil, err
		}
		if f.resampler != "" {
			if resize.Resampler, err = resample.ParseAlgorithm(f.resampler); err != nil {
				return nil, fmt.Errorf("--resampler: %w", err)
			}
		}
		return pack.NewPixels(pixels.Params{Codec: f.codec}, resize)
	}
	return nil, fmt.Errorf("--encoding %s: want jpeg or pixels", name)
}
