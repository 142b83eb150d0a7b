package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
)

// SelectionConfig says what the positions of an epoch hold if they do not hold each sample of the set once.
type SelectionConfig struct {
	// Samples is N, the number of samples in the set, as in [Config].
	Samples int
	// List holds the indices of the samples to choose from, as an unshuffled plan serves them; an index may come more than once. nil
	// means all samples. The selection keeps it.
	List []uint32
	// Weights holds a number for each sample to choose from: finite, 0 or more, and one of them more. A position then holds
	// one of these samples, drawn with a probability in proportion, with replacement. nil means that each comes once.
	Weights []float64
	// Repeats is R, the number of positions in a row that hold the same sample; 0 means 1. Positions in a row go to ranks in a row.
	Repeats int
	// Positions is the length of the epoch's sequence; 0 means as many as there are samples to choose from.
	Positions int
	// OfRank means that List is the share of one rank, in its order, and not dealt to the ranks. It excludes Weights, Repeats and a
	// plan that shuffles.
	OfRank bool
	// Joined holds the length of each set that the samples were joined of, and Mix a weight for each: an epoch has samples of the sets in
	// proportion. It takes Positions, and nothing else.
	Joined []int
	Mix    []float64
	// Buckets, if not nil, has every batch hold samples of one bucket. It takes nothing else.
	Buckets *Buckets
}

// A Selection says what the positions of an epoch's sequence hold if they do not hold each sample of the set once. There are M
// samples to choose from and R repeats. Let b = q div R. Position q then holds:
//
//	with weights  the sample drawn for b (see [aliasTable]);
//	shuffled      the sample at position perm(b) of the list, or, without a list, at position b of the set's own sequence;
//	unshuffled    the same with perm(b) = b.
//
// [mixture] says what the positions of joined sets hold, and [Buckets] those of buckets. A list of one rank's own holds at position i
// the sample for position rank + i · world.
//
// A repetition is a number that tells the times apart at which a sample comes in an epoch, for its random draws. It is 0 where each comes
// once, q mod R with repeats, and the position (of the list, where it is shuffled) wherever a sample may come any number of times.
//
// It is immutable, safe for concurrent use, and may be shared by plans. It takes 4 bytes for each sample of the list, and 12
// for each weight.
type Selection struct {
	samples   int
	list      []uint32
	twice     bool // an index comes twice in the list
	alias     *aliasTable
	repeats   int
	positions int
	ofRank    bool
	mixture   *mixture
	buckets   *bucketed
}

// RepeatsMax bounds [SelectionConfig.Repeats].
const RepeatsMax = 1 << 16

// NewSelection returns the selection for cfg, or a [*ConfigError].
func NewSelection(cfg SelectionConfig) (*Selection, error) {
	s := &Selection{samples: cfg.Samples, list: cfg.List, repeats: max(cfg.Repeats, 1), positions: cfg.Positions, ofRank: cfg.OfRank}
	candidates := s.choices()
	switch {
	case cfg.Samples < 1 || cfg.Samples > SamplesMax:
		return nil, configError("a set of %d samples, want 1 or more, and less than 2^31", cfg.Samples)
	case candidates == 0:
		return nil, configError("no sample is selected")
	case candidates > SamplesMax:
		return nil, configError("%d samples are selected, want less than 2^31", candidates)
	case cfg.Repeats < 0 || cfg.Repeats > RepeatsMax:
		return nil, configError("repeats is %d, want 1 to %d", cfg.Repeats, RepeatsMax)
	case cfg.Positions < 0 || cfg.Positions > SamplesMax:
		return nil, configError("an epoch of %d samples, want 1 or more, and less than 2^31", cfg.Positions)
	case cfg.OfRank && (cfg.List == nil || cfg.Weights != nil || s.repeats > 1 || cfg.Positions != 0):
		return nil, configError("a rank's own order is a list of samples, without weights, repeats or another length")
	case cfg.Mix != nil && (cfg.List != nil || cfg.Weights != nil || s.repeats > 1):
		return nil, configError("a mixture of joined sets takes no list, weights or repeats")
	case cfg.Buckets != nil && (cfg.List != nil || cfg.Weights != nil || cfg.Mix != nil || s.repeats > 1 || cfg.Positions != 0):
		return nil, configError("buckets take no list, weights, mixture, repeats or another length")
	case cfg.Buckets != nil && len(cfg.Buckets.Of) != cfg.Samples:
		return nil, configError("buckets of %d samples, and there are %d", len(cfg.Buckets.Of), cfg.Samples)
	case cfg.Weights == nil && cfg.Mix == nil && cfg.Positions > candidates*s.repeats:
		return nil, configError("an epoch of %d samples, and there are %d, each %d times: it takes weights to draw one more often",
			cfg.Positions, candidates, s.repeats)
	case cfg.Weights != nil && len(cfg.Weights) != candidates:
		return nil, configError("%d weights for %d samples", len(cfg.Weights), candidates)
	}
	if err := s.checkList(); err != nil {
		return nil, err
	}
	if s.positions == 0 {
		s.positions = candidates
	}
	var err error
	switch {
	case cfg.Weights != nil:
		s.alias, err = newAliasTable(cfg.Weights)
	case cfg.Mix != nil:
		s.mixture, err = newMixture(cfg.Joined, cfg.Mix, cfg.Positions)
	case cfg.Buckets != nil:
		if s.buckets, err = newBucketed(cfg.Buckets); err == nil {
			s.positions = s.buckets.all() * s.buckets.batch
		}
	}
	return s, err
}

// checkList refuses indices that no sample has, and notes whether one comes twice.
func (s *Selection) checkList() error {
	if s.list == nil {
		return nil
	}
	seen := make([]uint64, (s.samples+63)/64)
	for position, index := range s.list {
		if int64(index) >= int64(s.samples) {
			return configError("position %d of the list holds sample %d: indices are 0 to %d", position, index, s.samples-1)
		}
		word, bit := index/64, uint64(1)<<(index%64)
		s.twice = s.twice || seen[word]&bit != 0
		seen[word] |= bit
	}
	return nil
}

// Positions returns the length of the epoch's sequence in a world of so many ranks.
func (s *Selection) Positions(world int) int {
	if s.ofRank {
		return s.positions * world
	}
	return s.positions
}

const (
	listBytes     = 4  // bytes for an entry of the list
	weightBytes   = 12 // bytes for a column of the alias table
	buildingBytes = 20 // further bytes for a weight during the build: itself, its share, and its position in the queues
)

// SelectionBytes returns the memory that a selection with a list and weights of these lengths takes, and the most that making it takes.
func SelectionBytes(list, weights int) (lasting, building int64) {
	lasting = int64(list)*listBytes + int64(weights)*weightBytes
	return lasting, lasting + int64(weights)*buildingBytes
}

// candidate returns the sample at a position of the list, or of the set where there is no list.
func (s *Selection) candidate(position int) int {
	if s.list == nil {
		return position
	}
	return int(s.list[position])
}

// check refuses what a plan asks of the selection that it can't do.
func (s *Selection) check(c *Config) error {
	switch {
	case s.samples != c.Samples:
		return configError("samples is %d, want the %d of its selection", c.Samples, s.samples)
	case s.buckets != nil && c.BatchSize != s.buckets.batch:
		return configError("batch_size is %d, want the %d of its buckets", c.BatchSize, s.buckets.batch)
	case s.buckets != nil && c.Consumed%c.BatchSize != 0:
		return configError("consumed is %d, want a multiple of the batch size, %d, for batches of one bucket", c.Consumed, c.BatchSize)
	case s.ofRank && c.Shuffle:
		return configError("a rank's own order is not shuffled")
	case s.ofRank && s.positions > math.MaxInt/c.World:
		return configError("%d samples for each of %d ranks are too many", s.positions, c.World)
	case s.ofRank && c.Consumed%c.World != 0:
		return configError("consumed is %d, want a multiple of the world, %d, for a rank's own order", c.Consumed, c.World)
	}
	return nil
}

// pick returns the sample at position q ≥ 0 of the epoch's sequence, and which repetition of it that is. Positions beyond the
// last are padding, and begin anew.
func (p *Plan) pick(q int) (index, repetition int) {
	s := p.cfg.Selection
	if s == nil {
		return p.sampleAt(q), 0
	}
	if s.ofRank {
		return int(s.list[q/p.cfg.World]), q
	}
	q %= s.positions
	b, again := q/s.repeats, q%s.repeats
	switch {
	case s.mixture != nil:
		return p.pickMixed(s.mixture, q)
	case s.alias != nil:
		return s.candidate(s.alias.draw(p.draws, b)), q
	case s.list == nil:
		return p.sampleAt(b), again
	}
	position := b
	if p.order != nil {
		position = p.order.at(b)
	}
	if s.twice {
		again += position * s.repeats
	}
	return int(s.list[position]), again
}

// selectedPartitions returns the partitions, in rising order, that hold the samples which a plan with a selection can meet.
func (p *Plan) selectedPartitions() (partitions []int) {
	found := make([]bool, min(p.cfg.Samples, p.cfg.Partitions))
	missing := len(found)
	add := func(index int) {
		if k := index % p.cfg.Partitions; !found[k] {
			found[k] = true
			missing--
		}
	}
	switch s := p.cfg.Selection; {
	case s.alias != nil:
		for column := 0; column < len(s.alias.threshold) && missing > 0; column++ {
			add(s.candidate(int(s.alias.alias[column])))
			if s.alias.threshold[column] > 0 {
				add(s.candidate(column))
			}
		}
	case s.list == nil: // repetitions go to ranks in a row, so that any rank can meet any
		for index := range found {
			add(index)
		}
	case p.cfg.Shuffle:
		for position := 0; position < len(s.list) && missing > 0; position++ {
			add(int(s.list[position]))
		}
	default:
		for i := 0; i < p.local && missing > 0; i++ {
			index, _ := p.pick(p.position(i))
			add(index)
		}
	}
	for k, holds := range found {
		if holds {
			partitions = append(partitions, k)
		}
	}
	return partitions
}

// Alternatives gives the samples that may replace one that cannot be read, in the order to try them. They are the samples
// that the plan chooses from and can draw, in the sample's own partition. That partition is within reach wherever the sample is
// served, so they are the same on any rank of any world. The caller takes those of the right class.
//
// They follow the order of the list, or of the set, from a position drawn for the sample, and wrap around. The position is the high word of
// x · M for M samples to choose from.
//
//	x = mix(mix(key + index·γ) + repetition·γ)
//
// Here mix and γ are SplitMix64's. The key is the first 8 bytes, big-endian, of SHA-256("imgfeed substitutes v1\0" fingerprint "\0"
// seed "\0" epoch), the numbers in decimal.
func (p *Plan) Alternatives(index, repetition int) iter.Seq[int] {
	c := &p.cfg
	sum := sha256.Sum256(fmt.Appendf(nil, "imgfeed substitutes v1\x00%s\x00%d\x00%d", c.Fingerprint, c.Seed, c.Epoch))
	x := mix64(mix64(binary.BigEndian.Uint64(sum[:])+uint64(index)*goldenGamma) + uint64(repetition)*goldenGamma)
	n := c.Samples
	if c.Selection != nil {
		n = c.Selection.choices()
	}
	high, _ := bits.Mul64(x, uint64(n))
	first := int(high)
	return func(yield func(int) bool) {
		for k := range n {
			candidate, position := 0, (first+k)%n
			if c.Selection == nil {
				candidate = position
			} else if candidate = c.Selection.candidate(position); !c.Selection.drawn(position) {
				continue
			}
			if candidate != index && candidate%c.Partitions == index%c.Partitions && !yield(candidate) {
				return
			}
		}
	}
}

// choices returns how many samples there are to choose from, an index that the list has twice counted twice.
func (s *Selection) choices() int {
	if s.list == nil {
		return s.samples
	}
	return len(s.list)
}

// drawn reports whether the sample at a position of the list has a weight above 0, if there are weights.
func (s *Selection) drawn(position int) bool {
	return s.alias == nil || s.alias.threshold[position] > 0 || int(s.alias.alias[position]) == position
}
