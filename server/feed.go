package server

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/ring"
	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// A feed is what an open request has set up: a set, a transform and a ring, from which epoch after epoch is served.
type feed struct {
	openConfig
	server  *Server
	samples loader.Set
	ring    *ring.Ring
	slots   []*loader.Slot // by number: views of the ring
	supply  *loader.Supply // the slots that are neither lent nor in a stream
	totals  *splitTotals

	stream    atomic.Pointer[loader.Stream] // of the running epoch; nil if none runs
	images    atomic.Int64
	batches   atomic.Int64
	bytes     atomic.Int64
	blanks    atomic.Int64
	slotWait  atomic.Int64 // ns that streams stood still for want of a free slot, as of the last batch
	writeTime atomic.Int64 // ns
}

// newFeed sets up what an open request asks for.
func (s *Server) newFeed(m wire.OpenRequest) (*feed, error) {
	cfg, err := s.checkOpen(m)
	if err != nil {
		return nil, err
	}
	f := &feed{openConfig: cfg, server: s, totals: s.totals.splits[cfg.split]}
	if f.samples, err = loader.FromShards(cfg.set); err != nil {
		return nil, err
	}
	slots, err := s.memory.take(cfg.slots, cfg.layout.Size)
	if err != nil {
		return nil, err
	}
	newRing := ring.NewPrivate
	if cfg.shared {
		newRing = ring.New
	}
	if f.ring, err = newRing(slots, cfg.layout.Size); err != nil {
		s.memory.give(int64(slots) * cfg.layout.Size)
		return nil, err
	}
	for i := range slots {
		f.slots = append(f.slots, viewSlot(i, f.ring.Bytes(i), cfg.layout))
	}
	f.supply = loader.NewSupply(f.slots...)
	return f, nil
}

// viewSlot lays the loader's arrays over a slot's memory, which is little-endian like the wire on every platform that Go's
// memfd exists for and imgfeed is built for.
func viewSlot(id int, memory []byte, l ring.Layout) *loader.Slot {
	images, labels, indices, params := l.Arrays(memory, l.BatchSize)
	s := &loader.Slot{ID: id, Images: images, Labels: view[int64](labels), Indices: view[int64](indices)}
	if params != nil {
		s.Params = view[int32](params)
	}
	return s
}

// view reinterprets memory, aligned to 64 bytes by the layout, as numbers.
func view[T int32 | int64](memory []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/int(unsafe.Sizeof(zero)))
}

// close frees the ring. No stream may be open.
func (f *feed) close() {
	size := f.ring.Size()
	if err := f.ring.Close(); err != nil {
		f.server.log.Error("freeing a ring failed", "err", err)
	}
	f.server.memory.give(size)
}

// opened returns the reply to the open request.
func (f *feed) opened(id uint64) wire.Opened {
	height, width := f.spec.OutputSize()
	m := f.set.Manifest()
	o := wire.Opened{
		Session: id, Split: f.split, Samples: f.set.Len(), Fingerprint: m.Fingerprint, Rank: f.plan.Rank, World: f.plan.World,
		Height: height, Width: width, Channels: channels, Slots: f.ring.Slots(), SlotBytes: f.layout.Size,
		Offsets: wire.Offsets{Images: f.layout.Images, Labels: f.layout.Labels, Indices: f.layout.Indices, Params: f.layout.Params},
		Notes:   f.notes(),
	}
	if f.shared {
		o.RingBytes = f.ring.Size()
	}
	return o
}

// notes are sentences that the user should see once.
func (f *feed) notes() []string {
	notes := []string{}
	if f.notBitExact != "" {
		notes = append(notes, f.notBitExact)
	}
	if f.plan.World == f.set.World() || f.plan.World == 1 {
		return notes
	}
	if f.set.World() > 1 {
		notes = append(notes, "the set was built for another world size: every rank reads from several partitions, so all of them must stay in reach")
	}
	return notes
}

func (f *feed) transport() string {
	if f.shared {
		return wire.TransportShm
	}
	return wire.TransportSocket
}

func (f *feed) imageLayout() transform.Layout {
	if f.nchw {
		return transform.NCHW
	}
	return transform.NHWC
}

// release takes a slot back from the client.
func (f *feed) release(slot int) error {
	if !f.shared {
		return badRequest("release: batches of this session come through the socket, there are no slots to release")
	}
	if err := f.ring.Release(slot); err != nil {
		return err
	}
	f.supply.Put(f.slots[slot])
	return nil
}

// checkedStart begins an epoch. stop ends the one before it, once the request is known to be sound: a request that fails
// changes nothing.
func (f *feed) checkedStart(m wire.StartRequest, stop func()) (*loader.Stream, *plan.Plan, error) {
	cfg := f.plan
	cfg.Epoch, cfg.Consumed = int(m.Epoch), int(m.Consumed)
	p, err := plan.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := checkPlan(f.set, p); err != nil {
		return nil, nil, err
	}
	onError := loader.Fail
	if f.blank {
		onError = loader.Blank
	}
	stop()
	st, err := f.server.pool.NewStream(loader.StreamConfig{
		Set: f.samples, Plan: p, Spec: f.spec, Layout: f.imageLayout(), OnError: onError, Supply: f.supply, Log: f.server.log,
	})
	return st, p, err
}

// count notes a batch that is sent.
func (f *feed) count(b loader.Batch, bytes int64) {
	f.images.Add(int64(b.Count))
	f.batches.Add(1)
	f.bytes.Add(bytes)
	f.blanks.Add(int64(b.Blank))
	f.totals.add(int64(b.Count), bytes, int64(b.Blank))
}

// countTimes notes what writing a batch took, and what its stream has waited for slots since the last one.
func (f *feed) countTimes(wrote, slotWait time.Duration) {
	f.writeTime.Add(int64(wrote))
	f.slotWait.Add(int64(slotWait))
	f.server.totals.writeTime.Add(int64(wrote))
	f.server.totals.slotWait.Add(int64(slotWait))
}
