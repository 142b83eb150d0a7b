package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A selection is a request and the arrays that follow it.
type selection struct {
	m       selectRequest
	list    []int64
	weights []float64
}

// choose sends a selection.
func (c *client) choose(s selection) {
	c.t.Helper()
	s.m.List, s.m.Weights = int64(len(s.list)), int64(len(s.weights))
	c.send(s.m)
	raw := numbers(s.list...)
	for _, w := range s.weights {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(w))
	}
	c.sendRaw(raw)
}

// TestSelectionsAreServed serves what was selected to 1, 2 and 4 ranks: together they have what one rank alone has.
func TestSelectionsAreServed(t *testing.T) {
	const n = 37
	ts := startServer(t, oneSet(t, n, 2), nil)
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = float64(i % 4)
	}
	for name, sel := range map[string]selection{
		"all":     {selectRequest{}, nil, nil},
		"subset":  {selectRequest{}, []int64{5, 36, 2, 9, 11, 30, 1}, nil},
		"weights": {selectRequest{Positions: 50}, nil, weights},
		"repeats": {selectRequest{Repeats: 3, Positions: 3 * n}, nil, nil},
		"order":   {selectRequest{}, []int64{1, 1, 2, 3, 5, 8, 13, 21, 34, 1}, nil},
	} {
		for _, shuffle := range []bool{false, true} {
			run := func(rank, world int) []int64 {
				c := ts.dial().hello().open(openRequest{BatchSize: 3, Shuffle: shuffle, Seed: of[int64](3), Policy: "uneven", Rank: &rank, World: &world, Slots: 2, Selects: true})
				defer c.close()
				c.choose(sel)
				expect[selectedReply](c)
				return slices.Concat(c.epoch(4, 0)...)
			}
			whole := run(0, 1)
			for _, world := range []int{2, 4} {
				for rank := range world {
					var want []int64
					for q := rank; q < len(whole); q += world {
						want = append(want, whole[q])
					}
					testenv.DeepEqual(t, run(rank, world), want, "%s, shuffle %t, rank %d of %d", name, shuffle, rank, world)
				}
			}
		}
	}
}

// TestSelectionsAreRefused checks that a request which fails leaves the selection as it was, and the connection in order.
func TestSelectionsAreRefused(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	c := ts.dial().hello()
	c.choose(selection{list: []int64{1}})
	e := expect[errorMessage](c)
	testenv.Require(t, e.Request == "select" && !e.Fatal, "before open: %+v", e)
	c.open(openRequest{BatchSize: 2, Slots: 2})
	c.choose(selection{list: []int64{4, 5}})
	expect[selectedReply](c)
	long := make([]int64, 5000) // what is left of it is skipped
	long[1] = -1
	for want, sel := range map[string]selection{
		"position 1 of the list is -1: indices are 0 to 9": {selectRequest{}, long, nil},
		"position 0 of the list is 10":                     {selectRequest{}, []int64{10}, nil},
		"3 weights for 10 samples":                         {selectRequest{}, nil, []float64{1, 2, 3}},
		"weight 0 is NaN":                                  {selectRequest{}, []int64{1}, []float64{math.NaN()}},
		"repeats is -2":                                    {selectRequest{Repeats: -2}, nil, nil},
		"positions is -1":                                  {selectRequest{Positions: -1}, nil, nil},
		"positions is 4294967296":                          {selectRequest{Positions: 1 << 32}, nil, nil},
		"an epoch of 11 samples, and there are 10":         {selectRequest{Positions: 11}, nil, nil},
		"a rank's own order is a list of samples":          {selectRequest{OfRank: true}, nil, nil},
	} {
		c.choose(sel)
		c.refused(kindBadRequest, want)
	}
	testenv.DeepEqual(t, c.epoch(0, 0), [][]int64{{4, 5}}, "after all of these")
	m := ask[selectedReply](c, selectRequest{})
	testenv.Check(t, m.Positions == 10 && m.Bytes == 0, "back to the whole set: %+v", m)
	testenv.Equal(t, len(slices.Concat(c.epoch(0, 0)...)), 10, "samples of the whole set")
}

// TestSelectionsOfUnknownLength end the connection: nobody knows where the next request begins.
func TestSelectionsOfUnknownLength(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	for _, text := range []string{
		`{"type":"select","list":-1}`, `{"type":"select","weights":9999999999}`, `{"type":"select","list":1,"foo":2}`, `{"type":"select","list":"x"}`,
	} {
		c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
		c.sendRaw(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
		e := expect[errorMessage](c)
		testenv.Check(t, e.Fatal && e.ErrKind == kindBadRequest && e.Request == "select", "%s: %+v", text, e)
		c.expectClosed()
		c.close()
	}
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	c.send(selectRequest{List: 8})
	c.sendRaw(make([]byte, 20))
	c.close()
	ts.checkIdle()
}

// TestSelectionsCountAsMemory refuses what is beyond the server's memory, before it is read.
func TestSelectionsCountAsMemory(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), func(cfg *Config) { cfg.MemoryBytes = 1 << 20 })
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	before := ts.memory.inUse()
	c.choose(selection{list: slices.Repeat([]int64{1}, 1<<18)})
	c.refused(kindBadRequest, "the selection takes 1.0 MiB", "--memory")
	c.choose(selection{list: slices.Repeat([]int64{1}, 1000), weights: slices.Repeat([]float64{1}, 1000)})
	m := expect[selectedReply](c)
	testenv.Check(t, m.Bytes == 16000 && ts.memory.inUse() == before+16000, "%+v, and %d bytes more in use", m, ts.memory.inUse()-before)
	c.close()
	ts.checkIdle()
}

// TestSelectionsNeedTheirPartitions serves a machine that has one partition of two.
func TestSelectionsNeedTheirPartitions(t *testing.T) {
	dir := oneSet(t, 10, 2)
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "train-shards", "rank-0001")))
	ts := startServer(t, dir, nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2, Seed: of[int64](1), Selects: true})
	c.choose(selection{list: []int64{4, 0, 8}})
	expect[selectedReply](c)
	testenv.DeepEqual(t, c.epoch(0, 0), [][]int64{{4, 0}, {8}}, "an order of samples that are here")
	for _, sel := range []selection{{list: []int64{4, 1}}, {m: selectRequest{Repeats: 2}}, {}} {
		c.choose(sel)
		expect[selectedReply](c)
		c.send(startRequest{})
		if e := expect[errorMessage](c); e.ErrKind != kindMissing || !strings.Contains(e.Message, "rank-0001") ||
			strings.Contains(e.Message, "select samples of the partitions that are here") != (sel.m.Repeats > 0 || sel.list != nil) {
			t.Errorf("%+v", e)
		}
	}
}

// TestARunningEpochKeepsItsSelection changes the selection in the middle of an epoch.
func TestARunningEpochKeepsItsSelection(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 1, Slots: 1})
	c.choose(selection{list: []int64{7, 8}})
	expect[selectedReply](c)
	first := c.begun(0)
	c.choose(selection{list: []int64{1}})
	expect[selectedReply](c)
	got := c.checkBatch(first)
	c.send(releaseRequest{Slot: 0})
	got = append(got, c.checkBatch(expect[batchMessage](c))...)
	expect[endMessage](c)
	testenv.Check(t, slices.Equal(got, []int64{7, 8}), "%v", got)
	c.send(releaseRequest{Slot: 0})
	testenv.DeepEqual(t, c.epoch(1, 0), [][]int64{{1}}, "the epoch after it")
}

func TestWordsMustAllCome(t *testing.T) {
	_, err := readWords(bytes.NewReader(make([]byte, 15)), 2, func(_ int, word uint64) (uint64, error) { return word, nil })
	testenv.Check(t, err != nil, "15 bytes are two words")
}

// TestBucketOf compares with logarithms, and at the boundary.
func TestBucketOf(t *testing.T) {
	sorted, err := sortBuckets([][2]int{{20, 40}, {10, 10}, {40, 20}, {30, 25}})
	testenv.Require(t, err == nil && sorted[0] == [2]int{40, 20} && sorted[3] == [2]int{20, 40}, "%v, %v", sorted, err)
	for w := int32(1); w < 90; w += 4 {
		for h := int32(1); h < 90; h += 3 {
			best, nearest := 0, math.Inf(1)
			for k, b := range sorted {
				if d := math.Abs(math.Log(float64(w)/float64(h)) - math.Log(float64(b[1])/float64(b[0]))); d < nearest-1e-12 {
					best, nearest = k, d
				}
			}
			got := bucketOf(sorted, w, h)
			testenv.Check(t, got == best, "%d×%d is in bucket %v, want %v", w, h, sorted[got], sorted[best])
		}
	}
	testenv.Equal(t, bucketOf(sorted, math.MaxInt32, 1), 3, "the bucket of the widest image")
	for _, bad := range [][][2]int{{{0, 1}}, {{1, 1 << 20}}, {{2, 2}, {1, 1}}, make([][2]int, bucketsMax+1)} {
		testenv.Fails(sortBuckets(bad))(t, nil, "%.3v is taken", bad)
	}
}
