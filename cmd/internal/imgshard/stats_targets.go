package imgshard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/imgfeed/imgfeed/shard"
)

// objectStats are the statistics of boxes.
type objectStats struct {
	Count    int          `json:"count"`
	Empty    int          `json:"empty"` // images without objects
	PerImage distribution `json:"per_image"`
	Width    distribution `json:"width"` // pixels of the stored image
	Height   distribution `json:"height"`
	Classes  []classCount `json:"classes"` // objects of each, the most frequent first
}

// A classShare is a label's share of the pixels of all masks.
type classShare struct {
	Class   string  `json:"class"`
	Label   int     `json:"label"`
	Pixels  int64   `json:"pixels"`
	Share   float64 `json:"share"`
	Samples int     `json:"samples"` // masks that have it
}

// countTargets computes the statistics of boxes and masks, for which it reads every record.
func (st *setStats) countTargets(ctx context.Context, set *shard.Set) error {
	fields := set.Manifest().Fields
	objects, masks := fields.Has(shard.Objects), fields.Has(shard.Mask)
	if !objects && !masks {
		return nil
	}
	var t targets
	perImage, widths, heights := tally{}, tally{}, tally{}
	byLabel := make(map[int64]int)
	var pixels, samples [256]int
	err := eachEntry(ctx, set, func(i int, _ *shard.Entry) error {
		record, _, err := set.Read(i, nil)
		if err == nil {
			if err = t.read(fields, &record); err != nil {
				err = set.Corrupt(i, err)
			}
		}
		if err != nil {
			return err
		}
		perImage[float64(len(t.objects.Labels))]++
		for k, label := range t.objects.Labels {
			b := t.objects.Boxes[4*k:]
			byLabel[label]++
			widths[float64(b[2]-b[0])]++
			heights[float64(b[3]-b[1])]++
		}
		var here [256]int
		for _, label := range t.labels {
			here[label]++
		}
		for label, n := range here {
			pixels[label] += n
			samples[label] += min(n, 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch f.Type {
		case shard.Objects:
			st.Objects = &objectStats{Empty: perImage[0], PerImage: perImage.distribution(), Width: widths.distribution(),
				Height: heights.distribution()}
			st.Objects.Classes = []classCount{}
			for label, n := range byLabel {
				st.Objects.Count += n
				st.Objects.Classes = append(st.Objects.Classes, classCount{nameOf(f, int(label)), int32(label), n})
			}
			slices.SortFunc(st.Objects.Classes, func(a, b classCount) int { return cmp.Or(b.Samples-a.Samples, int(a.Label-b.Label)) })
		case shard.Mask:
			st.Pixels = sharesOf(f, pixels, samples)
		}
	}
	return nil
}

// sharesOf are the shares of the labels that masks have.
func sharesOf(f shard.Field, pixels, samples [256]int) (shares []classShare) {
	all := 0
	for _, n := range pixels {
		all += n
	}
	for label, n := range pixels {
		if n > 0 {
			shares = append(shares, classShare{nameOf(f, label), label, int64(n), float64(n) / float64(all), samples[label]})
		}
	}
	return shares
}

// nameOf is the name of a target's label.
func nameOf(f shard.Field, label int) string {
	if label < len(f.Classes) {
		return f.Classes[label]
	}
	return fmt.Sprint(label)
}
