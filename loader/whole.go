package loader

import (
	"fmt"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// An Image is one stored image, whole: RGB, row after row.
type Image struct {
	Width, Height int
	Label         int32
	Pix           []byte
}

// Whole decodes sample i of a set as it is stored, without a transform: the file's own pixels, or with an encoding that resized them
// the resized ones. It is for people who look at single samples: every call makes an engine of its own.
func Whole(set *shard.Set, i int) (Image, error) {
	stored, err := encodingOf(set)
	if err != nil {
		return Image{}, err
	}
	record, _, err := set.Read(i, nil)
	if err != nil {
		return Image{}, err
	}
	width, height := int(record.Width), int(record.Height)
	spec, err := transform.NewSpec(transform.CenterCrop{Size: transform.Size{height, width}})
	if err != nil {
		return Image{}, fmt.Errorf("loader: sample %d: %w", i, err)
	}
	image := Image{width, height, record.Label, make([]byte, spec.OutputBytes())}
	source := transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: stored}
	_, err = transform.NewEngine(transform.ActiveLevel()).Apply(spec, transform.Output{Pix: image.Pix}, source, transform.RNG{})
	if err != nil {
		return Image{}, fmt.Errorf("loader: sample %d: %w", i, err)
	}
	return image, nil
}
