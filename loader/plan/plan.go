// Package plan is the pure function that says which sample stands where. It maps a shard set's fingerprint, a seed, an epoch, a rank,
// a world and a batch size to the samples of each batch. It keeps no array of samples except a [Selection]'s, and touches no file and
// no clock. It gives the same answer in every process, so an interrupted run continues exactly where it was, on the same or on
// another number of ranks.
//
// # The sequence of an epoch
//
// A set of N samples in W partitions keeps sample p in partition p mod W at offset p div W. The epoch's global sequence has N
// positions. Position q lies in partition k = q mod W at offset j = q div W. It holds:
//
//	shuffled    sample k + W·perm(j), perm a keyed permutation of the partition's offsets (see [permutation]);
//	unshuffled  sample q.
//
// So a world of W ranks reads from its own partition only, and yet any other world can serve the same sequence.
//
// All ranks together have used `consumed` samples of the sequence. Rank r of w then takes the positions consumed + r, consumed + r + w
// and so on.
//
// For example, N = 10, W = 2, w = 2, unshuffled, batches of 2: rank 0 gets [0 2] [4 6] [8], rank 1 [1 3] [5 7] [9].
// Stopped after the first batch (4 consumed) and resumed by three ranks, they get 4 7 · 5 8 · 6 9.
//
// # The end of an epoch
//
// N is rarely a multiple of w. [Pad] continues beyond the last position, with samples from the beginning of the same partition, until
// all ranks have equally many, as torch's DistributedSampler does. [DropLast] leaves out the rest and the last incomplete batch.
// [Uneven] gives each sample once in total, and ranks may then differ by one.
//
// # Other sequences
//
// A [Selection] has the positions hold something else: a subset, a draw with weights, each sample several times, or an order that
// the caller has made. All the rest stays as it is, since a position is all that a rank, a batch and a checkpoint know.
package plan

import (
	"cmp"
	"fmt"
	"math"
)

// A Policy says what happens at the end of an epoch that does not divide evenly.
type Policy uint8

const (
	// Pad repeats samples until every rank has ceil(remaining/world) of them; the last batch may be short, by the same
	// number on every rank.
	Pad Policy = iota
	// DropLast gives every rank floor(remaining/world) samples, in full batches only.
	DropLast
	// Uneven gives every sample once over all ranks. Ranks may differ by one sample, and so by one batch.
	Uneven
)

var policyNames = [...]string{Pad: "pad", DropLast: "drop_last", Uneven: "uneven"}

// String returns the policy's name on the wire.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("plan.Policy(%d)", uint8(p))
}

// SamplesMax is the largest number of samples that a plan takes.
const SamplesMax = math.MaxInt32

// BatchSizeMax is the largest batch that a plan takes.
const BatchSizeMax = 1 << 24

// WorldMax is the largest number of ranks that a plan takes.
const WorldMax = 1 << 24

// Config is everything that a plan depends on.
type Config struct {
	// Fingerprint is the manifest's, which identifies samples and order. Only a shuffled plan uses it.
	Fingerprint string
	// Samples is N, the number of samples in the set, at least 1.
	Samples int
	// Partitions is W, the number of the set's partitions; 0 means 1.
	Partitions int
	// Seed and Epoch key the shuffle.
	Seed  int64
	Epoch int
	// Rank of World asks; World 0 means 1.
	Rank, World int
	// BatchSize is the number of samples in a rank's full batch, at least 1.
	BatchSize int
	Policy    Policy
	Shuffle   bool
	// Consumed is the number of positions of this epoch that all ranks together have used already, 0 to the length of its
	// sequence: Samples, or what Selection says.
	Consumed int
	// Selection chooses the sample of each position; nil means each sample of the set once.
	Selection *Selection
}

// A ConfigError says why there can't be such a plan or selection.
type ConfigError struct{ Reason string }

func (e *ConfigError) Error() string { return "plan: " + e.Reason }

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// check fills in the defaults and refuses what makes no sense.
func (c *Config) check() error {
	c.Partitions, c.World = cmp.Or(c.Partitions, 1), cmp.Or(c.World, 1)
	for _, f := range []struct {
		name       string
		value      int
		low, limit int // low ≤ value ≤ limit
		reason     string
	}{
		{"samples", c.Samples, 1, SamplesMax, "1 or more, and less than 2^31"},
		{"partitions", c.Partitions, 1, SamplesMax, "1 or more"},
		{"epoch", c.Epoch, 0, math.MaxInt, "0 or more"},
		{"world", c.World, 1, WorldMax, fmt.Sprintf("1 to %d", WorldMax)},
		{"rank", c.Rank, 0, c.World - 1, fmt.Sprintf("0 to world−1 = %d", c.World-1)},
		{"batch_size", c.BatchSize, 1, BatchSizeMax, fmt.Sprintf("1 to %d", BatchSizeMax)},
		{"consumed", c.Consumed, 0, c.positions(), fmt.Sprintf("0 to the number of samples, %d", c.positions())},
		{"policy", int(c.Policy), int(Pad), int(Uneven), "pad, drop_last or uneven"},
	} {
		if f.value < f.low || f.value > f.limit {
			return configError("%s is %d, want %s", f.name, f.value, f.reason)
		}
	}
	if c.Selection != nil {
		return c.Selection.check(c)
	}
	return nil
}

// positions returns the length of the epoch's sequence.
func (c *Config) positions() int {
	if c.Selection != nil {
		return c.Selection.Positions(c.World)
	}
	return c.Samples
}

// share returns how many of the remaining samples or batches the rank gets.
func (c *Config) share(remaining int) int {
	switch c.Policy {
	case DropLast:
		return remaining / c.World
	case Uneven:
		return ceilDiv(remaining-c.Rank, c.World)
	}
	return ceilDiv(remaining, c.World)
}

// A Plan is one rank's share of one epoch, or of the rest of it. It is immutable and safe for concurrent use.
type Plan struct {
	cfg     Config
	local   int                  // this rank's number of samples
	batches int                  // this rank's number of batches
	perms   map[int]*permutation // permutations of the partitions that this rank can reach; nil if unshuffled
	order   *permutation         // permutation of a selection's list; nil if unshuffled
	draws   drawKeys             // keys for a selection with weights
}

// New returns the plan for cfg, or a [*ConfigError].
func New(cfg Config) (*Plan, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Plan{cfg: cfg}
	p.key()
	if s := cfg.Selection; s != nil && s.buckets != nil {
		p.shareBuckets(s.buckets)
		return p, nil
	}
	p.local = cfg.share(cfg.positions() - cfg.Consumed)
	if cfg.Policy == DropLast {
		p.local -= p.local % cfg.BatchSize
	}
	p.batches = ceilDiv(p.local, cfg.BatchSize)
	return p, nil
}

// key makes what depends on seed and epoch.
func (p *Plan) key() {
	c, s := &p.cfg, p.cfg.Selection
	switch {
	case s != nil && s.mixture != nil:
		p.keyGroups(s.mixture.lengths, s.positions)
	case s != nil && s.alias != nil:
		p.draws = newDrawKeys(c.Fingerprint, c.Seed, c.Epoch)
	case !c.Shuffle:
	case s != nil && s.buckets != nil:
		p.keyGroups(s.buckets.sizes, s.buckets.all())
	case s != nil && s.list != nil:
		p.order = c.permutation(0, len(s.list))
	default:
		p.perms = make(map[int]*permutation)
		for _, k := range p.Partitions() {
			p.perms[k] = c.permutation(k, p.partitionSize(k))
		}
	}
}

// keyGroups makes the permutations of groups of samples, joined sets or buckets, and that of the positions which all of them fill.
func (p *Plan) keyGroups(sizes []int, positions int) {
	p.order = p.cfg.permutation(len(sizes), positions)
	p.perms = make(map[int]*permutation)
	for k, n := range sizes {
		if n > 0 {
			p.perms[k] = p.cfg.permutation(k, n)
		}
	}
}

// permutation returns the epoch's keyed permutation of so many values.
func (c *Config) permutation(partition, size int) *permutation {
	return newPermutation(c.Fingerprint, c.Seed, c.Epoch, partition, size)
}

// Config returns the configuration of the plan, with its defaults filled in.
func (p *Plan) Config() Config { return p.cfg }

// Samples returns the number of samples that this rank gets from here to the end of the epoch, padding included.
func (p *Plan) Samples() int { return p.local }

// Batches returns the number of batches that this rank gets from here to the end of the epoch.
func (p *Plan) Batches() int { return p.batches }

// BatchLen returns the number of samples in batch b, 0 ≤ b < [Plan.Batches].
func (p *Plan) BatchLen(b int) int {
	if s := p.cfg.Selection; s != nil && s.buckets != nil {
		return s.buckets.length(p.numberOf(s.buckets, b))
	}
	return min(p.cfg.BatchSize, p.local-b*p.cfg.BatchSize)
}

// Batch appends to dst[:0] the samples' indices of batch b, 0 ≤ b < [Plan.Batches], and returns it. It allocates only if dst is too small.
func (p *Plan) Batch(b int, dst []int) []int {
	if b < 0 || b >= p.batches {
		panic(fmt.Sprintf("plan: batch %d of %d", b, p.batches))
	}
	dst = dst[:0]
	if s := p.cfg.Selection; s != nil && s.buckets != nil {
		return p.appendBucketed(s.buckets, b, dst)
	}
	first := b * p.cfg.BatchSize
	for i := first; i < first+p.BatchLen(b); i++ {
		index, _ := p.pick(p.position(i))
		dst = append(dst, index)
	}
	return dst
}

// Repetitions appends to dst[:0] which repetition of its sample each position of batch b is (see [Selection]), and returns it. It
// stays empty in a plan without a selection, and of buckets, where each is 0.
func (p *Plan) Repetitions(b int, dst []int) []int {
	dst = dst[:0]
	if s := p.cfg.Selection; s == nil || s.buckets != nil {
		return dst
	}
	first := b * p.cfg.BatchSize
	for i := first; i < first+p.BatchLen(b); i++ {
		_, repetition := p.pick(p.position(i))
		dst = append(dst, repetition)
	}
	return dst
}

// position returns the position in the epoch's sequence of this rank's sample i.
func (p *Plan) position(i int) int { return p.cfg.Consumed + p.cfg.Rank + p.cfg.World*i }

// ConsumedAfter returns the number of positions of the epoch that all ranks together have used once each of them has had
// batch b: what a checkpoint keeps, and what [Config.Consumed] takes. It never exceeds the length of the epoch's sequence.
func (p *Plan) ConsumedAfter(b int) int {
	return min(p.cfg.Consumed+p.cfg.World*p.cfg.BatchSize*(b+1), p.cfg.positions())
}

// Partitions returns the partitions, in rising order, that hold the samples of this plan. A server that lacks one of them cannot serve it.
func (p *Plan) Partitions() []int {
	if p.cfg.Selection != nil {
		return p.selectedPartitions()
	}
	n, built := p.cfg.Samples, p.cfg.Partitions
	var partitions []int
	if n < built { // padding may fall on an empty partition, and then on any other
		for k := range n {
			partitions = append(partitions, k)
		}
		return partitions
	}
	// Steps of w modulo W reach every partition congruent to the first one modulo gcd(w, W).
	step := gcd(p.cfg.World, built)
	for k := (p.cfg.Consumed + p.cfg.Rank) % step; k < built; k += step {
		partitions = append(partitions, k)
	}
	return partitions
}

// sampleAt returns the sample at position q ≥ 0 of the epoch's sequence; positions from N on are padding.
func (p *Plan) sampleAt(q int) int {
	n, built := p.cfg.Samples, p.cfg.Partitions
	if q >= n && (built == 1 || p.partitionSize(q%built) == 0) {
		q %= n
	}
	k, j := q%built, q/built
	if size := p.partitionSize(k); j >= size {
		j %= size
	}
	if perm := p.perms[k]; perm != nil {
		j = perm.at(j)
	}
	return k + built*j
}

// partitionSize returns the number of samples in partition k.
func (p *Plan) partitionSize(k int) int {
	return (p.cfg.Samples - k + p.cfg.Partitions - 1) / p.cfg.Partitions
}

// ceilDiv returns ⌈a/b⌉ for a ≥ 0, and 0 for a < 0.
func ceilDiv(a, b int) int {
	if a <= 0 {
		return 0
	}
	return (a + b - 1) / b
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
