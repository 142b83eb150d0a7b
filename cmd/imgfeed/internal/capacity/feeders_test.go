package capacity

import (
	"math"
	"strings"
	"testing"
)

// TestFeeders plans with feeders that are needed, that are not, and for no GPUs.
func TestFeeders(t *testing.T) {
	for _, c := range []struct {
		need    Need
		needed  int
		link    float64 // images/s
		verdict string
	}{
		{Need{GPUs: 8, ImagesPerSecond: 2e6}, 69, 3 * 32000, " 3 feeders of 16 cores add up to 96,000 images/s; 69 would do."},
		{Need{GPUs: 8, ImagesPerSecond: 2000}, 0, 0, " Feeders are not needed."},
		{Need{}, 0, 3 * 32000, " 3 feeders of 16 cores add up to 96,000 images/s."},
	} {
		v := views(t, "train")
		p := &Plan{
			Sample: &Sample{Samples: 1281167}, Encodings: measured(t, v)[:1], Machine: Machine{Cores: 16, MemoryBytes: 1 << 40}, Need: c.need,
			Feeders: &Feeders{Machines: 3},
		}
		if err := p.Compute(v, 256, false); err != nil {
			t.Fatal(err)
		}
		f := p.Feeders
		if f.Needed != c.needed || math.Abs(f.LinkBytesPerSecond-c.link*150528) > 1 || f.PerSecond != 96000 || f.ReadRate != 32000*112e3 || !strings.HasSuffix(p.Verdict, c.verdict) {
			t.Errorf("%+v: %s", f, p.Verdict)
		}
	}
}
