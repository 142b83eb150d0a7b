package capacity

import (
	"cmp"
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	// headroom is how much more than the GPUs take a feed should give: rates of single batches differ.
	headroom = 1.1
	// trainingCores is the number of cores that each GPU's training process takes.
	trainingCores = 1
	// threadBytes is the memory of a decoding thread, indexBytes a server's memory for each sample.
	threadBytes = 10 << 20
	indexBytes  = 40
	// cacheShare is how much of the memory that is left the page cache is counted on to have.
	cacheShare = 0.75
)

// A Machine is the machine that a plan is for.
type Machine struct {
	Cores              int     `json:"cores"` // logical ones
	MemoryBytes        int64   `json:"memory_bytes"`
	DiskBytesPerSecond float64 `json:"disk_bytes_per_second"` // 0: not known
}

// A Need is the rate that the GPUs consume.
type Need struct {
	GPUs            int     `json:"gpus"`
	ImagesPerSecond float64 `json:"images_per_second"` // of all; 0: not said
	Rate            *Rate   `json:"rate,omitempty"`    // where it was published
}

// The bottlenecks of an encoding's rate.
const (
	LimitCPU  = "cpu"
	LimitDisk = "disk"
	LimitGPU  = "gpu" // the feed is ahead
)

// A Plan says what feeds the GPUs. [Plan.Compute] makes it from the sample, the machine, the need, and the measurements of the encodings.
type Plan struct {
	*Sample

	Machine   Machine  `json:"machine"`
	Link      *Link    `json:"link,omitempty"`    // of a set in a store; it takes the disk's place
	Feeders   *Feeders `json:"feeders,omitempty"` // if any are to help
	Need      Need     `json:"need"`
	FeedCores int      `json:"feed_cores"` // the cores that the training processes leave

	Encodings []Option `json:"encodings"`
	Chosen    int      `json:"chosen"` // of Encodings
	Reason    string   `json:"reason"`

	Rings      int   `json:"rings"`
	Slots      int   `json:"slots"` // of each ring
	SlotBytes  int64 `json:"slot_bytes"`
	FeedBytes  int64 `json:"feed_bytes"` // the server's memory: rings, threads, index
	UploadRate int64 `json:"upload_bytes_per_second"`

	Bottleneck string `json:"bottleneck"` // of the chosen one
	Verdict    string `json:"verdict"`
}

// An Option is an encoding, its measurements, and what it would need.
type Option struct {
	Name        string        `json:"name"`
	Encoding    string        `json:"encoding"`
	Flags       []string      `json:"flags,omitempty"` // of imgshard build; nil for a shard set
	ImageBytes  float64       `json:"image_bytes"`     // stored, of an image, with its index and its share of the shard
	SetBytes    int64         `json:"set_bytes"`
	PerCore     float64       `json:"images_per_core_second"`       // measured
	PerSecond   float64       `json:"images_per_second"`            // on the feed's cores, were reading free
	DiskLimit   float64       `json:"disk_images_per_second"`       // the rate of the disk or link; 0: not known
	Cached      bool          `json:"cached"`                       // later epochs do not wait for the disk or link: the set lies in memory, or the cache is large enough
	CoresNeeded int           `json:"cores_needed"`                 // to decode at the GPUs' rate; 0: no GPUs given
	ReadRate    float64       `json:"read_bytes_per_second_needed"` // at the GPUs' rate, or at that of the cores
	NotBitExact string        `json:"not_bit_exact,omitempty"`
	Rejected    int           `json:"rejected"` // images of the sample that could not be packed
	Reasons     []pack.Reason `json:"reasons,omitempty"`

	keepsFiles bool // records give the files back
}

// rate returns the rate of every epoch but the first, and its bottleneck.
func (o *Option) rate() (imagesPerSecond float64, limit string) {
	if o.DiskLimit > 0 && !o.Cached && o.DiskLimit < o.PerSecond {
		return o.DiskLimit, LimitDisk
	}
	return o.PerSecond, LimitCPU
}

// FeedCores returns how many cores the training processes leave to the feed.
func FeedCores(m Machine, n Need) int { return max(1, m.Cores-trainingCores*n.GPUs) }

// Compute completes the plan, for batches of these views. With bitExact it excludes encodings whose results differ from the originals'.
func (p *Plan) Compute(views transform.Views, batchSize int, bitExact bool) error {
	p.Rings = max(1, p.Need.GPUs)
	p.FeedCores = FeedCores(p.Machine, p.Need)
	var err error
	if p.Slots, p.SlotBytes, err = server.RingSize(views, batchSize, p.Machine.MemoryBytes/2, p.Rings); err != nil {
		return err
	}
	p.FeedBytes = int64(p.Rings)*int64(p.Slots)*p.SlotBytes + int64(p.FeedCores)*threadBytes + int64(p.Samples)*indexBytes
	p.UploadRate = int64(p.Need.ImagesPerSecond * float64(views.OutputBytes()))
	for i := range p.Encodings {
		p.Encodings[i].compute(p)
	}
	if !p.choose(bitExact) {
		return fmt.Errorf("%s: results of %v are not those of the originals, and nothing else can be packed of it: plan without --bit-exact, or with what the set was made from",
			p.Path, p.Encodings[0].Encoding)
	}
	p.judge()
	if p.Link != nil {
		p.Link.compute(p)
	}
	if p.Feeders != nil {
		p.Feeders.sampleBytes = float64(views.OutputBytes())
		p.Feeders.compute(p)
	}
	return nil
}

// compute computes what an encoding would need.
func (o *Option) compute(p *Plan) {
	o.SetBytes = int64(o.ImageBytes * float64(p.Samples))
	o.PerSecond = o.PerCore * float64(p.FeedCores)
	o.DiskLimit = p.Machine.DiskBytesPerSecond / o.ImageBytes
	o.Cached = float64(o.SetBytes) <= cacheShare*float64(p.Machine.MemoryBytes-p.FeedBytes)
	if p.Link != nil {
		o.DiskLimit, o.Cached = p.Link.BytesPerSecond/o.ImageBytes, true
	}
	wanted := o.PerSecond
	if p.Need.ImagesPerSecond > 0 {
		wanted = p.Need.ImagesPerSecond
		o.CoresNeeded = int(math.Ceil(wanted * headroom / o.PerCore))
	}
	o.ReadRate = wanted * o.ImageBytes
}

// choose says what to pack: of the encodings that feed the GPUs the first that keeps the files, as nothing is lost by it, or else the smallest; if none
// does, the fastest. It reports whether there is any that may be taken.
func (p *Plan) choose(bitExact bool) bool {
	enough, best := -1, -1
	var bestRate float64
	for i := range p.Encodings {
		o := &p.Encodings[i]
		if bitExact && o.NotBitExact != "" {
			continue
		}
		rate, _ := o.rate()
		if rate > bestRate {
			best, bestRate = i, rate
		}
		if p.Need.ImagesPerSecond == 0 || rate < p.Need.ImagesPerSecond*headroom || enough >= 0 && p.Encodings[enough].keepsFiles {
			continue
		}
		if enough < 0 || o.keepsFiles || o.ImageBytes < p.Encodings[enough].ImageBytes {
			enough = i
		}
	}
	switch {
	case enough >= 0 && p.Encodings[enough].keepsFiles:
		p.Chosen, p.Reason = enough, "it feeds the GPUs, and keeps the files"
	case enough >= 0:
		p.Chosen, p.Reason = enough, "it is the smallest of those that feed the GPUs"
	case p.Need.ImagesPerSecond > 0:
		p.Chosen, p.Reason = best, "it is the fastest, though none feeds the GPUs"
	default:
		p.Chosen, p.Reason = best, "it is the fastest"
	}
	return best >= 0
}

// judge says what will be waited for.
func (p *Plan) judge() {
	o := &p.Encodings[p.Chosen]
	rate, limit := o.rate()
	p.Bottleneck = limit
	need := p.Need.ImagesPerSecond
	switch {
	case need == 0 && limit == LimitDisk:
		p.Verdict = fmt.Sprintf("The disk: it gives %s images/s, and %s could decode %s.", count(rate), Cores(p.FeedCores), count(o.PerSecond))
	case need == 0:
		p.Verdict = fmt.Sprintf("The cores: they decode %s images/s.", count(rate))
	case rate >= need:
		p.Bottleneck = LimitGPU
		p.Verdict = fmt.Sprintf("The GPUs, as it should be: they take %s images/s, and the feed gives up to %s.", count(need), count(rate))
	case limit == LimitDisk:
		p.Verdict = fmt.Sprintf("The disk: it gives %s images/s of the %s that the GPUs take. A disk that reads %s/s does, or memory for the set's %s.",
			count(rate), count(need), bytesize.Format(int64(o.ReadRate)), bytesize.Format(o.SetBytes))
	default:
		p.Verdict = fmt.Sprintf("The cores: they decode %s images/s of the %s that the GPUs take. The feed needs %s, and the training processes %d.",
			count(rate), count(need), Cores(o.CoresNeeded), trainingCores*p.Need.GPUs)
	}
	if o.Cached && o.DiskLimit > 0 && o.DiskLimit < min(cmp.Or(need, rate), rate) {
		from, then := "disk", "the set lies in memory"
		if p.Link != nil {
			from, then = "link", "--cache has what the link does not bring in time"
		}
		p.Verdict += fmt.Sprintf(" The first epoch waits for the %s, which gives %s images/s; after it %s.", from, count(o.DiskLimit), then)
	}
}

// Cores writes a number of cores for people.
func Cores(n int) string { return bytesize.Counted(n, "core", "cores") }

// count writes a number for people: three digits that say something, in groups.
func count(n float64) string {
	if n >= 1000 {
		unit := math.Pow(10, math.Floor(math.Log10(n))-2)
		n = math.Round(n/unit) * unit
	}
	return bytesize.Grouped(int(math.Round(n)))
}
