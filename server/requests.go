package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/resample"
	"github.com/imgfeed/imgfeed/internal/ring"
	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A versionError means that the client speaks another version of the protocol.
type versionError struct{ version int }

func (e *versionError) Error() string {
	return fmt.Sprintf("the client speaks version %d of the protocol, this server version %d: bring imgfeed and its client package to the same release", e.version, wire.Version)
}

// handle serves one request. An error is the reply to it.
func (s *session) handle(m wire.Message) error {
	if hello, ok := m.(wire.HelloRequest); ok {
		return s.hello(hello)
	}
	if !s.greeted {
		return badRequest("the first message must be hello")
	}
	if open, ok := m.(wire.OpenRequest); ok {
		return s.open(open)
	}
	f := s.feed.Load()
	if f == nil {
		return badRequest("%s needs an open session: send open first", m.Kind())
	}
	switch m := m.(type) {
	case wire.LabelsRequest:
		return s.labels(f)
	case wire.ClassesRequest:
		return s.send(wire.Classes{Classes: orEmpty(f.set.Manifest().Classes)})
	case wire.KeyRequest:
		return s.key(f, m.Index)
	case wire.StartRequest:
		return s.start(f, m)
	case wire.Release:
		return f.release(m.Slot)
	case wire.Stop:
		if m.Generation == 0 || m.Generation == s.generation {
			s.stopEpoch()
		}
		return nil
	case wire.StatsRequest:
		return s.send(f.stats())
	}
	panic(fmt.Sprintf("server: no handler for %T", m))
}

func (s *session) hello(m wire.HelloRequest) error {
	if s.greeted {
		return badRequest("hello was said already")
	}
	if m.Version != wire.Version {
		return &versionError{m.Version}
	}
	s.greeted = true
	return s.send(s.server.hello())
}

func (s *session) open(m wire.OpenRequest) error {
	if s.feed.Load() != nil {
		return badRequest("this connection has a session: open another connection for a second one")
	}
	f, err := s.server.newFeed(m)
	if err != nil {
		return err
	}
	s.feed.Store(f)
	s.log.Info("session opened", "split", f.split, "transform", f.spec.String(), "batch_size", m.BatchSize, "rank", f.plan.Rank, "world", f.plan.World,
		"transport", f.transport(), "slots", f.ring.Slots(), "ring", formatBytes(f.ring.Size()))
	reply := f.opened(s.id)
	for _, note := range reply.Notes {
		s.log.Warn("session: " + note)
	}
	if !f.shared {
		return s.send(reply)
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if err := s.encode(reply); err != nil {
		return err
	}
	return wire.WriteRights(s.conn, s.frame, f.ring.File())
}

// labels sends the labels a piece at a time, straight from the index: a manifest may claim any number of samples in
// partitions that are not here.
func (s *session) labels(f *feed) error {
	const piece = 16 << 10
	count := f.set.Len()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if err := s.encode(wire.Labels{Count: count}); err != nil {
		return err
	}
	for first := 0; ; first += piece {
		if _, err := s.conn.Write(s.frame); err != nil {
			return err
		}
		if first >= count {
			return nil
		}
		s.frame = s.frame[:0]
		for i := first; i < min(first+piece, count); i++ {
			label := int32(-1)
			if f.set.Has(i % f.set.World()) {
				var err error
				if label, err = f.set.Label(i); err != nil {
					return err
				}
			}
			s.frame = binary.LittleEndian.AppendUint32(s.frame, uint32(label))
		}
	}
}

func (s *session) key(f *feed, index int) error {
	if index < 0 || index >= f.set.Len() {
		return badRequest("there is no sample %d: indices are 0 to %d", index, f.set.Len()-1)
	}
	key, err := f.set.Key(index)
	if err != nil {
		return err
	}
	return s.send(wire.Key{Index: index, Key: key})
}

// An openConfig is what an open request asks for, checked and with its defaults filled in.
type openConfig struct {
	split  string
	set    *shard.Set
	spec   *transform.Spec
	plan   plan.Config // all but epoch and consumed
	nchw   bool
	shared bool
	blank  bool
	params bool
	slots  int
	layout ring.Layout

	notBitExact string // why the results are not those of the original images, or ""
}

// checkOpen reads an open request.
func (s *Server) checkOpen(m wire.OpenRequest) (openConfig, error) {
	c := openConfig{split: m.Split, params: m.WithParams, slots: m.Slots}
	var err error
	if c.set, err = s.chooseSet(&c.split); err != nil {
		return c, err
	}
	resampler := s.cfg.Resampler
	if m.Resampler != "" {
		if resampler, err = resample.ParseAlgorithm(m.Resampler); err != nil {
			return c, badRequest("resampler is %q, want one of %s", m.Resampler, strings.Join(resample.Algorithms(), ", "))
		}
	}
	if c.spec, err = parseTransform(m.Transform, resampler); err != nil {
		return c, err
	}
	if err := loader.CheckBitExact(c.set, c.spec); err != nil {
		note, differs := errors.AsType[*loader.NotBitExactError](err)
		if !differs || m.BitExact || s.cfg.BitExact {
			return c, err
		}
		c.notBitExact = note.Note
	}
	var socket bool
	for _, choice := range []struct {
		field, value, usual, other string
		isOther                    *bool
	}{
		{"layout", m.Layout, wire.LayoutNHWC, wire.LayoutNCHW, &c.nchw},
		{"transport", m.Transport, wire.TransportShm, wire.TransportSocket, &socket},
		{"on_error", m.OnError, wire.OnErrorError, wire.OnErrorBlank, &c.blank},
	} {
		switch choice.value {
		case choice.usual, "":
		case choice.other:
			*choice.isOther = true
		default:
			return c, badRequest("%s is %q, want %q or %q", choice.field, choice.value, choice.usual, choice.other)
		}
	}
	c.shared = !socket
	if c.slots < 0 || c.slots > slotsMax {
		return c, badRequest("slots is %d, want 0 to %d", c.slots, slotsMax)
	}
	if c.plan, err = s.planConfig(m, c.set); err != nil {
		return c, err
	}
	height, width := c.spec.OutputSize()
	c.layout, err = ring.NewLayout(m.BatchSize, height, width, channels, m.WithParams)
	return c, err
}

// channels of every output: RGB.
const channels = 3

// A splitError means that a split is not here.
type splitError struct {
	split string
	here  []string
}

func (e *splitError) Error() string {
	return fmt.Sprintf("no split %q here; there are %s", e.split, strings.Join(e.here, ", "))
}

// chooseSet returns the set of a split, or of the only one if none is named.
func (s *Server) chooseSet(split *string) (*shard.Set, error) {
	here := slices.Sorted(maps.Keys(s.cfg.Sets))
	if *split == "" && len(here) == 1 && len(s.cfg.Damaged) == 0 {
		*split = here[0]
	}
	if *split == "" {
		text := "split is missing; there are " + strings.Join(here, ", ")
		for _, d := range s.cfg.Damaged {
			text += fmt.Sprintf("; and %s is damaged", d.Dir)
		}
		return nil, badRequest("%s", text)
	}
	if set, ok := s.sets[*split]; ok {
		return set, nil
	}
	if err := s.broken[*split]; err != nil {
		return nil, err
	}
	var err error = &splitError{*split, here}
	for _, d := range s.cfg.Damaged { // any of them may be the one that is meant
		err = fmt.Errorf("%w; %w", err, d.Err)
	}
	return nil, err
}

// parseTransform takes a preset's name or a list of operations; resampler is of those that name none.
func parseTransform(raw json.RawMessage, resampler transform.Resampler) (*transform.Spec, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, badRequest("transform is missing; want one of %s, or a list of operations", strings.Join(transform.Presets(), ", "))
	}
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, badRequest("transform: %v", err)
		}
	} else if raw[0] != '[' {
		return nil, badRequest("transform is %.40s, want a string or a list", raw)
	}
	return transform.ParseWith(text, resampler)
}

// planConfig checks rank, world, seed and policy, by making the plan of epoch 0.
func (s *Server) planConfig(m wire.OpenRequest, set *shard.Set) (plan.Config, error) {
	policy, err := plan.ParsePolicy(m.Policy)
	if err != nil {
		return plan.Config{}, badRequest("policy is %q, want pad, drop_last or uneven", m.Policy)
	}
	cfg := plan.Config{
		Fingerprint: set.Manifest().Fingerprint, Samples: set.Len(), BuiltWorld: set.World(),
		Rank: s.cfg.Rank, World: max(s.cfg.World, 1), BatchSize: m.BatchSize, Policy: policy, Shuffle: m.Shuffle,
	}
	switch {
	case m.Shuffle && m.Seed == nil:
		return cfg, badRequest("shuffle needs a seed: without one no run could be repeated or resumed")
	case (m.Rank == nil) != (m.World == nil):
		return cfg, badRequest("rank and world go together: give both or neither")
	case m.Rank != nil:
		if *m.World < 1 {
			return cfg, badRequest("world is %d, want 1 or more", *m.World)
		}
		cfg.Rank, cfg.World = *m.Rank, *m.World
	}
	if m.Seed != nil {
		cfg.Seed = *m.Seed
	}
	p, err := plan.New(cfg)
	if err != nil {
		return cfg, err
	}
	return cfg, checkPlan(set, p)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
