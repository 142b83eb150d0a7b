package source

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// Preview is what a short look at a split tells, without reading all of it.
type Preview struct {
	Images  int  // how many were met
	Whole   bool // these are all, and Classes are known
	Classes []string
	Samples []PreviewSample
	Notes   []string
	// Refused is why the split cannot be packed as it is; nil when nothing speaks against it so far.
	Refused error
}

// PreviewSample is one of the first samples.
type PreviewSample struct {
	Key    string
	Label  int32  // when Known
	Class  string // "": not known either
	Known  bool
	Format string // as the first bytes say it; "" when they cannot be read
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// Preview walks over a split until limit has passed, or, where its images are read one after the other out of tars, until there are samples enough.
// Each split may be walked over once after that.
func (s *Split) Preview(ctx context.Context, samples int, limit time.Duration) (Preview, error) {
	look := s.Again() // which Walk changes
	var p Preview
	until := time.Now().Add(limit)
	err := look.Walk(ctx, func(it Item) error {
		if it.Reason != "" {
			return nil
		}
		if len(p.Samples) < samples {
			sample := PreviewSample{Key: it.Key, Label: it.Label, Known: it.Labelled}
			if it.Data != nil {
				head := make([]byte, 16)
				n, _ := io.ReadFull(it.Data, head)
				sample.Format = formatOf(head[:n])
			}
			p.Samples = append(p.Samples, sample)
		}
		p.Images++
		if look.Streamed() && p.Images == samples || time.Now().After(until) {
			return errEnough
		}
		return nil
	})
	p.Whole, p.Notes = err == nil, look.notes
	if _, malformed := errors.AsType[*FormatError](err); malformed {
		p.Refused, err = err, nil
	}
	if err != nil && !errors.Is(err, errEnough) {
		return p, err
	}
	if p.Whole {
		p.Classes = look.Classes()
	}
	for i := range p.Samples {
		look.complete(&p.Samples[i], p.Whole)
	}
	return p, nil
}

// complete fills in what the walk did not say of a sample.
func (s *Split) complete(sample *PreviewSample, walked bool) {
	if walked {
		if label, err := s.Label(sample.Key); err == nil {
			sample.Label, sample.Known = label, true
		}
	}
	switch {
	case sample.Known && walked && sample.Label >= 0:
		sample.Class = s.Classes()[sample.Label]
	case !sample.Known:
		sample.Class, _, _ = keyClass(sample.Key, s.opts.ClassesFrom)
	}
	if sample.Format == "" && !s.Streamed() {
		if data, err := s.Read(sample.Key, nil); err == nil {
			sample.Format = formatOf(data)
		}
	}
}

func formatOf(head []byte) string {
	if f := imagefile.Sniff(head); f != imagefile.Unknown {
		return f.String()
	}
	return "not an image"
}
