package capacity

import (
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// Feeders are other machines, each like the plan's, that make samples by imgfeed feed. [Plan.Compute] says what they give, with the chosen encoding.
type Feeders struct {
	Machines           int     `json:"machines"`
	PerSecond          float64 `json:"images_per_second"`     // of all of them
	Needed             int     `json:"needed"`                // machines, so that the GPUs do not wait; 0: none, or no GPUs given
	LinkBytesPerSecond float64 `json:"link_bytes_per_second"` // into the machine with the GPUs, for what the feeders make of the GPUs' rate
	ReadRate           float64 `json:"read_bytes_per_second"` // of each feeder, from its disk or store, when all its cores decode
	sampleBytes        float64 // raw, on the wire
}

// compute adds to the plan's verdict what the feeders give.
func (f *Feeders) compute(p *Plan) {
	o := &p.Encodings[p.Chosen]
	one := o.PerCore * float64(p.Machine.Cores)
	f.PerSecond, f.ReadRate = one*float64(f.Machines), one*o.ImageBytes
	here, _ := o.rate()
	missing := p.Need.ImagesPerSecond*headroom - here
	each := bytesize.Counted(f.Machines, "feeder", "feeders") + " of " + Cores(p.Machine.Cores)
	switch {
	case p.Need.ImagesPerSecond == 0:
		f.LinkBytesPerSecond = f.PerSecond * f.sampleBytes
		p.Verdict += fmt.Sprintf(" %s add up to %s images/s.", each, count(f.PerSecond))
	case here >= p.Need.ImagesPerSecond:
		p.Verdict += " Feeders are not needed."
	default:
		f.Needed = int(math.Ceil(missing / one))
		f.LinkBytesPerSecond = min(missing, f.PerSecond) * f.sampleBytes
		p.Verdict += fmt.Sprintf(" %s add up to %s images/s; %d would do.", each, count(f.PerSecond), f.Needed)
	}
}
