package server

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// selectRequest says which samples the session's epochs hold, from the next start on. List int64 follow it, then Weights
// float64, all little-endian. One without any field goes back to the whole set.
type selectRequest struct {
	List      int64     `json:"list,omitempty"`      // how many indices follow; none means the set's
	OfRank    bool      `json:"of_rank,omitempty"`   // the list is this rank's own share
	Weights   int64     `json:"weights,omitempty"`   // how many follow: one for each sample of the list
	Repeats   int       `json:"repeats,omitempty"`   // positions in a row that hold the same sample
	Positions int64     `json:"positions,omitempty"` // the length of an epoch
	Mix       []float64 `json:"mix,omitempty"`       // the weight of each of joined sets
}

// selectedReply answers [selectRequest].
type selectedReply struct {
	Positions int64 `json:"positions"` // positions of an epoch, all ranks together
	Bytes     int64 `json:"bytes"`     // server memory of the selection
}

// followed returns how many bytes follow the request. An error ends the connection: nobody knows where the next request begins.
func (m selectRequest) followed() (int64, error) {
	if min(m.List, m.Weights) < 0 || max(m.List, m.Weights) > plan.SamplesMax {
		return 0, &wire.SyntaxError{Msg: fmt.Sprintf("list is %d and weights is %d, want 0 to %d", m.List, m.Weights, plan.SamplesMax)}
	}
	return 8 * (m.List + m.Weights), nil
}

// selectSamples takes a selection, or goes back to the whole set.
func (s *session) selectSamples(m selectRequest) error {
	if s.buckets != nil {
		return badRequest("select: the buckets of this session say which samples a batch holds")
	}
	if m.List+m.Weights+m.Positions == 0 && !m.OfRank && m.Repeats == 0 && m.Mix == nil {
		s.dropSelection()
		return s.connection.send(selectedReply{Positions: int64(s.set.Len())})
	}
	if m.Positions < 0 || m.Positions > plan.SamplesMax {
		return badRequest("positions is %d, want 0 to %d", m.Positions, plan.SamplesMax)
	}
	lasting, building := plan.SelectionBytes(int(m.List), int(m.Weights))
	if err := s.server.memory.reserve(building); err != nil {
		return err
	}
	made, err := s.readSelection(m)
	if err != nil {
		s.server.memory.give(building)
		return err
	}
	s.dropSelection()
	s.plan.Selection, s.selectionBytes = made, lasting
	s.server.memory.give(building - lasting)
	s.connection.log.Debug("selected", "list", m.List, "of_rank", m.OfRank, "weights", m.Weights, "repeats", m.Repeats, "positions",
		made.Positions(s.plan.World))
	return s.connection.send(selectedReply{Positions: int64(made.Positions(s.plan.World)), Bytes: lasting})
}

// dropSelection forgets the selection. An epoch that runs keeps it.
func (s *session) dropSelection() {
	s.server.memory.give(s.selectionBytes)
	s.plan.Selection, s.selectionBytes = nil, 0
}

// readSelection makes a selection of a request and of what follows it.
func (s *session) readSelection(m selectRequest) (*plan.Selection, error) {
	cfg := plan.SelectionConfig{Samples: s.set.Len(), Repeats: m.Repeats, Positions: int(m.Positions), OfRank: m.OfRank,
		Joined: s.set.Parts(), Mix: m.Mix}
	var err error
	cfg.List, err = readWords(s.connection.body, m.List, func(i int, word uint64) (uint32, error) {
		if word >= uint64(cfg.Samples) {
			return 0, badRequest("place %d of the list is %d: indices are 0 to %d", i, int64(word), cfg.Samples-1)
		}
		return uint32(word), nil
	})
	if err != nil {
		return nil, err
	}
	cfg.Weights, err = readWords(s.connection.body, m.Weights, func(_ int, word uint64) (float64, error) {
		return math.Float64frombits(word), nil
	})
	if err != nil {
		return nil, err
	}
	made, err := plan.NewSelection(cfg)
	if err != nil {
		return nil, err
	}
	with := s.plan
	with.Selection = made
	_, err = plan.New(with)
	return made, err
}

// readWords reads n values of 8 little-endian bytes each; nil if n is 0.
func readWords[T any](r io.Reader, n int64, convert func(i int, word uint64) (T, error)) (values []T, err error) {
	if n == 0 {
		return nil, nil
	}
	values = make([]T, n)
	var buffer [4096]byte
	for i := 0; i < len(values); {
		piece := buffer[:min(8*(len(values)-i), len(buffer))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return nil, fmt.Errorf("the connection ended in the middle of an array: %w", err)
		}
		for ; len(piece) > 0; piece = piece[8:] {
			if values[i], err = convert(i, binary.LittleEndian.Uint64(piece)); err != nil {
				return nil, err
			}
			i++
		}
	}
	return values, nil
}

// bucketsMax is how many buckets a session may have.
const bucketsMax = 1024

// sortBuckets returns buckets, height and width of the images in each, by aspect ratio. It refuses two of the same ratio, between
// which no image could choose.
func sortBuckets(buckets [][2]int) ([][2]int, error) {
	if len(buckets) > bucketsMax {
		return nil, badRequest("%d buckets, want %d at most", len(buckets), bucketsMax)
	}
	for _, b := range buckets {
		if min(b[0], b[1]) < 1 || max(b[0], b[1]) > transform.SizeMax {
			return nil, badRequest("buckets has %v, want height and width, 1 to %d", b, transform.SizeMax)
		}
	}
	sorted := slices.Clone(buckets)
	slices.SortFunc(sorted, func(a, b [2]int) int { return cmp.Compare(a[1]*b[0], b[1]*a[0]) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a[1]*b[0] == b[1]*a[0] {
			return nil, badRequest("buckets has %v and %v, which have the same aspect ratio: keep one of them", a, b)
		}
	}
	return sorted, nil
}

// bucketOf returns the place of the sorted bucket whose aspect ratio is nearest to an image's, by their logarithms; of two as
// near the first. The boundary between ratios a and b is √(a·b): it is compared squared, in products that every processor rounds
// alike.
func bucketOf(sorted [][2]int, width, height int32) int {
	w, h := float64(width), float64(height)
	k := 0
	for ; k+1 < len(sorted); k++ {
		a, b := sorted[k], sorted[k+1]
		if float64(w*w)*float64(a[0]*b[0]) <= float64(h*h)*float64(a[1]*b[1]) {
			break
		}
	}
	return k
}

// bucketsOf returns which bucket each sample of a set is in, by the size of its stored image.
func bucketsOf(set *shard.Set, sorted [][2]int) ([]uint16, error) {
	of := make([]uint16, set.Len())
	for i := range of {
		if !set.Has(i % set.Partitions()) {
			return nil, badRequest("buckets take the size of every image, and the partition of sample %d is not here", i)
		}
		e, err := set.Entry(i)
		if err != nil {
			return nil, err
		}
		of[i] = uint16(bucketOf(sorted, e.Width, e.Height))
	}
	return of, nil
}

// readBuckets makes the views of each bucket.
func (c *openConfig) readBuckets() (err error) {
	c.sized, c.buckets = nil, nil
	if len(c.Buckets) == 0 {
		return nil
	}
	if c.Size != 0 || c.Selects {
		return badRequest("buckets say which samples a batch holds, and their size: leave out selects and size")
	}
	if c.buckets, err = sortBuckets(c.Buckets); err != nil {
		return err
	}
	base := c.views
	for _, b := range c.buckets {
		views, err := base.Fitted(b[0], b[1])
		if err != nil {
			return err
		}
		c.sized = append(c.sized, views)
	}
	c.views = slices.MaxFunc(c.sized, func(a, b transform.Views) int { return cmp.Compare(a.OutputBytes(), b.OutputBytes()) })
	return nil
}

// selectBuckets makes the selection of the session's buckets, whose batches are of plan's size.
func (c *openConfig) selectBuckets() error {
	if c.buckets == nil {
		return nil
	}
	of, err := bucketsOf(c.set.Set, c.buckets)
	if err != nil {
		return err
	}
	c.plan.Selection, err = plan.NewSelection(plan.SelectionConfig{
		Samples: c.set.Len(), Buckets: &plan.Buckets{Of: of, BatchSize: c.plan.BatchSize, Full: c.plan.Policy == plan.DropLast},
	})
	return err
}

// positions returns the length of an epoch of buckets; 0 for a session without.
func (c *openConfig) positions() int64 {
	if c.buckets == nil {
		return 0
	}
	return int64(c.plan.Selection.Positions(c.plan.World))
}
