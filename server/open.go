package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/suggest"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/transform"
)

// openRequest opens the connection's session: it says what to deliver, and how. A connection has one session at most.
type openRequest struct {
	Split      string          `json:"split,omitempty"`     // optional if the server has one set
	Transform  json.RawMessage `json:"transform"`           // a preset's name, or a list of operations
	BatchSize  int             `json:"batch_size"`          // samples, at least 1
	Shuffle    bool            `json:"shuffle,omitempty"`   // a new order each epoch
	Seed       *int64          `json:"seed,omitempty"`      // shuffle needs it; 0 when absent
	Policy     string          `json:"policy,omitempty"`    // pad, drop_last or uneven
	Rank       *int            `json:"rank,omitempty"`      // the server's own when absent, or 0 of 1
	World      *int            `json:"world,omitempty"`     // together with rank
	Layout     string          `json:"layout,omitempty"`    // NHWC or NCHW
	Transport  string          `json:"transport,omitempty"` // shm or socket
	Slots      int             `json:"slots,omitempty"`     // 0 leaves it to the server
	WithParams bool            `json:"with_params,omitempty"`
	OnError    string          `json:"on_error,omitempty"` // error, blank or substitute

	Resampler string   `json:"resampler,omitempty"`  // default of the operations: pillow-13 or pillow-12; absent: the server's own
	BitExact  bool     `json:"bit_exact,omitempty"`  // refuse a transform whose results are not those of the original images
	Fields    []string `json:"fields,omitempty"`     // fields to deliver, in this order
	Boxes     string   `json:"boxes,omitempty"`      // format of the boxes of a field of objects: xyxy, xywh or cxcywh
	BoxesUnit string   `json:"boxes_unit,omitempty"` // pixels, or fraction of the image's width and height
	Selects   bool     `json:"selects,omitempty"`    // a select comes before the first start, and tells which partitions are needed

	WithRepetitions bool `json:"with_repetitions,omitempty"` // what records takes beside the indices

	Size int `json:"size,omitempty"` // pixels of the shorter side, of the transform with other sizes

	Buckets [][2]int `json:"buckets,omitempty"` // height and width of the images of a batch, one of these by their aspect ratio
}

// Values of the fields of [openRequest]; the first of each group is the default.
const (
	layoutNHWC = "NHWC"
	layoutNCHW = "NCHW"

	transportShm    = "shm"
	transportSocket = "socket"

	onErrorError      = "error"
	onErrorBlank      = "blank"
	onErrorSubstitute = "substitute"
)

// openedReply answers [openRequest]. With shared memory, its first byte carries the ring's descriptor.
type openedReply struct {
	Session     uint64       `json:"session"`
	Split       string       `json:"split"`
	Samples     int          `json:"samples"`
	Fingerprint string       `json:"fingerprint"`
	Rank        int          `json:"rank"`
	World       int          `json:"world"`
	Slots       int          `json:"slots"`
	SlotBytes   int64        `json:"slot_bytes"`          // slot s lies at s*slot_bytes in the ring
	Arrays      []ring.Array `json:"arrays"`              // arrays of each slot
	RingBytes   int64        `json:"ring_bytes"`          // 0 when the transport is the socket
	Notes       []string     `json:"notes"`               // sentences for the user, if any
	Positions   int64        `json:"positions,omitempty"` // positions of an epoch with buckets
}

func (c *connection) open(m openRequest) error {
	if c.session.Load() != nil {
		return badRequest("this connection has a session: open another connection for a second one")
	}
	s, err := c.server.newSession(c, m)
	if err != nil {
		return err
	}
	c.log.Info("session opened", "split", s.Split, "transform", s.viewsText, "batch_size", m.BatchSize, "rank", s.plan.Rank,
		"world", s.plan.World, "transport", s.Transport, "slots", s.ring.Slots(), "ring", bytesize.Format(s.ring.Size()))
	reply := openedReply{
		Session: c.id, Split: s.Split, Samples: s.set.Len(), Fingerprint: s.plan.Fingerprint, Rank: s.plan.Rank, World: s.plan.World,
		Slots: s.ring.Slots(), SlotBytes: s.slotBytes, Arrays: s.slotLayout.Arrays, Notes: s.notes(), Positions: s.positions(),
	}
	for _, note := range reply.Notes {
		c.log.Warn("session: " + note)
	}
	if !s.shared {
		return c.send(reply)
	}
	reply.RingBytes = s.ring.Size()
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.encode(reply); err != nil {
		return err
	}
	return wire.WriteRights(c.conn, c.frame, s.ring.File())
}

// An openConfig is what an open request asks for, checked and with its defaults filled in. Reading it changes no other state, so a change
// request reads another one beside it, and takes over what it wants.
type openConfig struct {
	openRequest // its split is the chosen one
	output
	set         *openSet
	plan        plan.Config // all but epoch and consumed
	imageLayout transform.Layout
	shared      bool
	onErr       loader.OnError
	policy      plan.Policy
	fields      *loader.Fields
}

// An output is what batches hold of images; a change request asks for another one.
type output struct {
	views       transform.Views
	sized       []transform.Views // views of each bucket; views has those of the largest images
	buckets     [][2]int          // sorted
	listed      bool              // the transform is a list of views, even of one
	viewsText   string            // the operations
	notBitExact string            // why the results are not those of the original images, or ""
	slotLayout  ring.Layout
}

// readOutput reads the transform, the plan, and which arrays are delivered.
func (c *openConfig) readOutput(s *Server) error {
	if err := c.readTransform(s.cfg.Resampler, s.cfg.BitExact); err != nil {
		return err
	}
	if err := c.readPlan(s.cfg.Rank, s.cfg.World); err != nil {
		return err
	}
	return c.readArrays()
}

// readTransform reads the transform, and checks whether its results must be those of the original images.
func (c *openConfig) readTransform(resampler transform.Resampler, bitExact bool) (err error) {
	m := c.openRequest
	if m.Resampler != "" {
		if resampler, err = resample.ParseAlgorithm(m.Resampler); err != nil {
			return badRequest("resampler is %q, want one of %s", m.Resampler, strings.Join(resample.Algorithms(), ", "))
		}
	}
	var text string // a preset's name
	if json.Unmarshal(m.Transform, &text) != nil {
		text = string(m.Transform) // a list of operations or an object with views
	}
	if text == "" {
		return badRequest("transform is missing; want one of %s, or a list of operations", strings.Join(transform.Presets(), ", "))
	}
	if c.views, err = transform.ParseViews(text, resampler); err != nil {
		return err
	}
	if m.Size != 0 {
		if c.views, err = c.views.Resized(m.Size); err != nil {
			return err
		}
	}
	if err := c.readBuckets(); err != nil {
		return err
	}
	c.viewsText = c.views.String()
	c.listed = m.Transform[0] == '{' || len(c.views) > 1
	c.notBitExact, err = loader.CheckBitExact(c.set.Set, c.views, m.BitExact || bitExact)
	return err
}

// readChoices reads the fields that take one of some words, of which the first is the default, and the number of slots.
func (c *openConfig) readChoices() (err error) {
	choose := func(field, value string, words ...string) int {
		i := max(0, slices.Index(words, value))
		if value != "" && value != words[i] {
			err = cmp.Or(err, badRequest("%s is %q, want one of %q", field, value, words))
		}
		return i
	}
	c.imageLayout = []transform.Layout{transform.NHWC, transform.NCHW}[choose("layout", c.Layout, layoutNHWC, layoutNCHW)]
	c.shared = choose("transport", c.Transport, transportShm, transportSocket) == 0
	onErr := choose("on_error", c.OnError, onErrorError, onErrorBlank, onErrorSubstitute)
	c.onErr = []loader.OnError{loader.Fail, loader.Blank, loader.Substitute}[onErr]
	c.policy = plan.Policy(choose("policy", c.Policy, plan.Pad.String(), plan.DropLast.String(), plan.Uneven.String()))
	c.Transport = cmp.Or(c.Transport, transportShm)
	if err == nil && (c.Slots < 0 || c.Slots > slotsMax) {
		err = badRequest("slots is %d, want 0 to %d", c.Slots, slotsMax)
	}
	return err
}

// readPlan reads rank, world and seed, and checks them by making the plan of epoch 0. It has the rank and world of requests without.
func (c *openConfig) readPlan(rank, world int) error {
	m := c.openRequest
	c.plan = plan.Config{
		Fingerprint: c.set.Manifest().Fingerprint, Samples: c.set.Len(), Partitions: c.set.Partitions(),
		Rank: rank, World: max(world, 1), BatchSize: m.BatchSize, Policy: c.policy, Shuffle: m.Shuffle,
	}
	switch {
	case m.Shuffle && m.Seed == nil:
		return badRequest("shuffle needs a seed: without one no run could be repeated or resumed")
	case (m.Rank == nil) != (m.World == nil):
		return badRequest("rank and world go together: give both or neither")
	case m.Rank != nil && *m.World < 1:
		return badRequest("world is %d, want 1 or more", *m.World)
	case m.Rank != nil:
		c.plan.Rank, c.plan.World = *m.Rank, *m.World
	}
	if m.Seed != nil {
		c.plan.Seed = *m.Seed
	}
	if err := c.selectBuckets(); err != nil {
		return err
	}
	p, err := plan.New(c.plan)
	if err != nil || m.Selects {
		return err
	}
	return checkPlan(c.set.Set, p)
}

// readArrays reads which fields are delivered, objects and masks among them as they follow the images, and lays out a slot.
func (c *openConfig) readArrays() (err error) {
	if c.fields, err = loader.NewFields(c.set.Manifest().Fields, c.Fields); err != nil {
		return err
	}
	boxes, err := loader.ParseBoxForm(c.Boxes, c.BoxesUnit)
	if err != nil {
		return err
	}
	if err := c.fields.Follow(c.views, boxes); err != nil {
		return err
	}
	if c.buckets != nil && c.fields.HasTargets() {
		return badRequest("boxes and masks need images of one size: leave buckets out")
	}
	if err := checkFieldRoom(c.fields, c.BatchSize); err != nil {
		return err
	}
	c.slotLayout, err = ring.NewLayout(c.BatchSize, c.arrays()...)
	return err
}

// chooseSet returns the set of a split, or of the only one if none is named, and acquires it: the caller releases it. A catalog that a
// reload replaces between the two steps has no set to acquire, and then the new one is asked.
func (s *Server) chooseSet(split *string) (*openSet, error) {
	c := s.catalog.Load()
	here := slices.Sorted(maps.Keys(c.found.Sets))
	if *split == "" && len(here) == 1 && len(c.found.Damaged) == 0 {
		*split = here[0]
	}
	if *split == "" {
		text := "split is missing; name one of " + strings.Join(here, ", ")
		for _, d := range c.found.Damaged {
			text += fmt.Sprintf("; and %s is damaged", d.Dir)
		}
		return nil, badRequest("%s", text)
	}
	if set, ok := c.sets[*split]; ok {
		if set.acquire() {
			return set, nil
		}
		return s.chooseSet(split) // a reload has just replaced it
	}
	if err := c.broken[*split]; err != nil {
		return nil, err
	}
	err := fmt.Errorf("no split %q here%s, only %s", *split, suggest.Hint(*split, here), strings.Join(here, ", "))
	for _, d := range c.found.Damaged { // any of them may be the one that is meant
		err = fmt.Errorf("%w; %w", err, d.Err)
	}
	return nil, &kindError{err, kindMissing}
}
