package targets

import (
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
)

// Masks makes the values of a field of masks.
type Masks struct {
	Field   shard.Field
	options dataset.TargetOptions
}

// NewMasks makes masks whose labels have these names; nil if they have none.
func NewMasks(classes []string, o dataset.TargetOptions) *Masks {
	return &Masks{shard.Field{Name: maskName, Type: shard.Mask, Classes: classes}, o}
}

// append appends the mask in a PNG for an image of w × h pixels.
func (m *Masks) append(dst, file []byte, w, h int) ([]byte, error) {
	l, err := imagefile.ReadLabels(file, w, h)
	if err != nil {
		return dst, reject("%v", err)
	}
	if l.Bytes == nil && m.options.Map == nil {
		return dst, reject("its mask has %s, and labels are numbers up to 255; %v", l.Kind, remedy.MapLabels)
	}
	labels := l.Bytes
	if m.options.Map != nil {
		if labels, err = m.mapped(l); err != nil {
			return dst, err
		}
	}
	if m.options.ReduceZero {
		for i := range labels {
			labels[i]-- // 0 becomes 255
			if labels[i] == 254 {
				labels[i] = 255 // It was 255, which no class has.
			}
		}
	}
	return shard.AppendBytes(dst, mask.Append(nil, w, h, labels)), nil
}

// mapped returns the labels by the map of the options.
func (m *Masks) mapped(l imagefile.Labels) ([]byte, error) {
	labels := make([]byte, l.Width*l.Height)
	last, to := -1, byte(0)
	for i := range labels {
		from := 0
		if l.Bytes != nil {
			from = int(l.Bytes[i])
		} else {
			from = l.Wide[i]
		}
		if from != last {
			var ok bool
			if to, ok = m.options.Map.Of(from); !ok {
				return nil, reject("its mask has the label %d, which the map of labels lacks", from)
			}
			last = from
		}
		labels[i] = to
	}
	return labels, nil
}
