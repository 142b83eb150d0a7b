package plan

import (
	"slices"
	"sort"
)

// Buckets are groups of samples, for instance those of like aspect ratio. Every batch holds samples of one group only.
//
// An epoch consists of batches of b samples each. A bucket of n samples has ⌈n/b⌉ batches, and the last may be short; with Full it
// has ⌊n/b⌋. They are numbered from the first bucket's on. Batch t of a shuffled epoch is batch number perm(t). Here perm is a keyed
// permutation (see [permutation]) with the number of buckets as its partition. Rank r of w has the batches r, r + w, …. Position j of a
// bucket's batch i holds the sample at offset perm(i·b + j) of the bucket, perm keyed with the bucket's number.
//
// Positions are numbered as if no batch were short: batch t begins at position t·b.
type Buckets struct {
	// Of has the bucket of each sample.
	Of []uint16
	// BatchSize is that of the plans.
	BatchSize int
	// Full leaves out samples that fill no batch.
	Full bool
}

// bucketed is what a selection keeps of [Buckets].
type bucketed struct {
	batch   int
	sizes   []int    // number of samples in each bucket
	list    []uint32 // the samples, by bucket
	starts  []int    // start of each bucket in list
	batches []int    // the number of each bucket's first batch, and of all
}

func newBucketed(b *Buckets) (*bucketed, error) {
	if b.BatchSize < 1 || b.BatchSize > BatchSizeMax {
		return nil, configError("batch_size is %d, want 1 or more", b.BatchSize)
	}
	s := &bucketed{batch: b.BatchSize, list: make([]uint32, len(b.Of)), starts: make([]int, 1), batches: make([]int, 1)}
	s.sizes = make([]int, int(slices.Max(b.Of))+1)
	for _, k := range b.Of {
		s.sizes[k]++
	}
	for k, n := range s.sizes {
		batches := ceilDiv(n, b.BatchSize)
		if b.Full {
			batches = n / b.BatchSize
		}
		s.starts, s.batches = append(s.starts, s.starts[k]+n), append(s.batches, s.batches[k]+batches)
	}
	next := slices.Clone(s.starts)
	for i, k := range b.Of {
		s.list[next[k]] = uint32(i)
		next[k]++
	}
	if s.all() > SamplesMax/b.BatchSize {
		return nil, configError("%d batches of %d samples are too many", s.all(), b.BatchSize)
	}
	if s.all() == 0 {
		return nil, configError("no bucket has the %d samples of a batch", b.BatchSize)
	}
	return s, nil
}

// all returns the number of batches of an epoch, over all ranks.
func (s *bucketed) all() int { return s.batches[len(s.batches)-1] }

// bucketOf returns the bucket of the batch with a number.
func (s *bucketed) bucketOf(number int) int { return sort.SearchInts(s.batches, number+1) - 1 }

// length returns the number of samples in the batch with a number.
func (s *bucketed) length(number int) int {
	k := s.bucketOf(number)
	return min(s.batch, s.sizes[k]-(number-s.batches[k])*s.batch)
}

// shareBuckets counts this rank's batches and samples.
func (p *Plan) shareBuckets(s *bucketed) {
	p.batches = p.cfg.share(s.all() - p.cfg.Consumed/s.batch)
	for b := range p.batches {
		p.local += s.length(p.numberOf(s, b))
	}
}

// numberOf returns the number of this rank's batch b. Batches beyond an epoch's last are padding, and begin anew.
func (p *Plan) numberOf(s *bucketed, b int) int {
	number := (p.cfg.Consumed/s.batch + p.cfg.Rank + p.cfg.World*b) % s.all()
	if p.order != nil {
		number = p.order.at(number)
	}
	return number
}

// Bucket returns the bucket that batch b, 0 ≤ b < [Plan.Batches], is of; 0 in a plan without buckets.
func (p *Plan) Bucket(b int) int {
	if s := p.cfg.Selection; s != nil && s.buckets != nil {
		return s.buckets.bucketOf(p.numberOf(s.buckets, b))
	}
	return 0
}

// appendBucketed appends the samples of batch b.
func (p *Plan) appendBucketed(s *bucketed, b int, dst []int) []int {
	number := p.numberOf(s, b)
	k := s.bucketOf(number)
	perm := p.perms[k]
	first := (number - s.batches[k]) * s.batch
	for offset := first; offset < first+s.length(number); offset++ {
		at := offset
		if perm != nil {
			at = perm.at(offset)
		}
		dst = append(dst, int(s.list[s.starts[k]+at]))
	}
	return dst
}
