package transform

import "image"

// Params are what was drawn for a sample. With torchvision they replay as functional.resized_crop(image, top, left,
// height, width, size) or functional.crop(image, top, left, height, width), and functional.hflip.
type Params struct {
	// Top, Left, Height and Width are the last crop, in pixels of the image that it was applied to: the stored image for
	// RandomResizedCrop, the resized one for RandomCrop and CenterCrop after a Resize. Top and Left are negative where a
	// crop begins in the padding. Without a crop they are the whole image.
	Top, Left, Height, Width int
	// Flip says that the image was flipped left to right.
	Flip bool
}

// ParamsLen is the number of int32 that a sample's Params are to a consumer.
const ParamsLen = 5

// Int32s returns the Params as they are handed to the consumer: top, left, height, width, and 1 if the image was flipped,
// else 0.
func (p Params) Int32s() [ParamsLen]int32 {
	flip := int32(0)
	if p.Flip {
		flip = 1
	}
	return [ParamsLen]int32{int32(p.Top), int32(p.Left), int32(p.Height), int32(p.Width), flip}
}

func (p *Params) setCrop(r image.Rectangle) {
	p.Top, p.Left, p.Height, p.Width = r.Min.Y, r.Min.X, r.Dy(), r.Dx()
}
