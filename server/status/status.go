// Package status is the account that a server gives of itself: what it serves, to whom, how fast, and what each session waits for.
// A server fills it at one moment; the page, /status.json, the metrics, the history and imgfeed status are views of it. The package also
// asks a running server for it. It serves imgfeed's own commands and may change from one version to the next.
package status

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
)

// Status is what a server is doing. Times are in seconds, moments in seconds since 1970, counts since the server started.
type Status struct {
	Server  string  `json:"server"`
	PID     int     `json:"pid"`
	Now     float64 `json:"now"`
	Started float64 `json:"started"`
	Page    string  `json:"page,omitempty"` // the URL of the status page
	Path    string  `json:"path,omitempty"` // of the socket, as serve printed it
	Verdict string  `json:"verdict"`        // what is the limit now
	Advice  string  `json:"advice"`         // what to do about it, "" if nothing

	Threads        int   `json:"threads"`
	RingBytes      int64 `json:"ring_bytes"` // memory of all sessions' rings
	RingLimitBytes int64 `json:"ring_limit_bytes"`

	Counts
	Errors          map[string]int64   `json:"errors"` // sent to clients, by kind
	ReadBytes       int64              `json:"read_bytes"`
	ImagesPerSecond float64            `json:"images_per_second"` // rate of the last seconds, like the sessions' rates
	Seconds         map[string]float64 `json:"seconds"`           // read, decode, resample and wait of all threads; slot_wait and write of all sessions

	Store   *Store   `json:"store,omitempty"`   // nil without sets in buckets or on web servers
	Feeders *Feeders `json:"feeders,omitempty"` // if the server has any
	Feeding *Feeding `json:"feeding,omitempty"` // nil unless the server is a feeder

	Sets     []Set           `json:"sets"`
	Damaged  []string        `json:"damaged"`  // sets and partitions that are here but not served, a sentence each
	Sessions []Session       `json:"sessions"` // sorted by split and rank
	Bad      []SeenBadSample `json:"bad"`      // the last samples that could not be served, the newest first
	History  []Moment        `json:"history"`  // the last minutes, a moment each second, the newest last

	// For the metrics alone.
	Splits      map[string]Counts `json:"-"` // counts of the served splits
	Processed   int64             `json:"-"` // images that went through the decoding threads
	Connections int               `json:"-"`
}

// A Set is a set that is served, and where it lies.
type Set struct {
	ServedSet
	Path string `json:"path"`
}

// A Session is one of a [Status]. Its counts are those since it was opened.
type Session struct {
	Session   uint64          `json:"session"`
	ClientPID int             `json:"client_pid"` // 0 if the system does not say
	Split     string          `json:"split"`
	Rank      int             `json:"rank"`
	World     int             `json:"world"`
	BatchSize int             `json:"batch_size"`
	Transform json.RawMessage `json:"transform"`
	Transport string          `json:"transport"` // shm or socket

	Epoch        *int `json:"epoch"`         // null when none runs
	EpochBatches int  `json:"epoch_batches"` // batches of the rank from its start on
	EpochSent    int  `json:"epoch_sent"`    // batches sent so far
	// SecondsLeft of the epoch at this rate; null where that is not known.
	SecondsLeft *float64 `json:"seconds_left"`

	WaitingFor loader.WaitingFor `json:"waiting_for"`
	Verdict    string            `json:"verdict"`
	Advice     string            `json:"advice"` // what to do about it, "" if nothing

	Counts
	ImagesPerSecond float64 `json:"images_per_second"`

	Slots     int   `json:"slots"`
	SlotsFree int   `json:"slots_free"`
	SlotsLent int   `json:"slots_lent"`
	RingBytes int64 `json:"ring_bytes"`
}

// SharedMemory is the transport of sessions whose batches are in shared memory.
const SharedMemory = "shm"

// Counts are what was delivered to clients. A counter is added by a field here and a line in deliveryCounters: the status, the
// metrics and the reply to stats follow.
type Counts struct {
	Images      int64 `json:"images"`
	Batches     int64 `json:"batches"`
	Bytes       int64 `json:"bytes"`       // bytes of arrays
	Blanks      int64 `json:"blanks"`      // samples replaced by zeros under on_error: blank
	Substitutes int64 `json:"substitutes"` // samples replaced by another one of their class

	SlotWait float64 `json:"slot_wait"` // time in which no slot was free
	Write    float64 `json:"write"`     // time of writes to the socket
}

var deliveryCounters = []struct {
	metric, help string
	of           func(*Counts) *int64
}{
	{"delivered_images_total", "Images delivered to clients.", func(c *Counts) *int64 { return &c.Images }},
	{"delivered_batches_total", "Batches delivered to clients.", func(c *Counts) *int64 { return &c.Batches }},
	{"delivered_bytes_total", "Bytes of arrays delivered to clients.", func(c *Counts) *int64 { return &c.Bytes }},
	{"blank_images_total", "Images that could not be read and were delivered as zeros.", func(c *Counts) *int64 { return &c.Blanks }},
	{"substituted_images_total", "Images that could not be read, and in whose place another one of their class was delivered.", func(c *Counts) *int64 { return &c.Substitutes }},
}

// Add adds what e counts.
func (c *Counts) Add(e Counts) {
	for _, counter := range deliveryCounters {
		*counter.of(c) += *counter.of(&e)
	}
	c.SlotWait += e.SlotWait
	c.Write += e.Write
}

// ServedSet describes one split that a server can serve.
type ServedSet struct {
	Split       string          `json:"split"`
	Samples     int             `json:"samples"`           // N
	Classes     int             `json:"classes"`           // how many; their names come by classes
	Partitions  int             `json:"partitions"`        // how many the set has
	Fingerprint string          `json:"fingerprint"`       // hex SHA-256 of the samples in their order
	Content     string          `json:"content,omitempty"` // hex SHA-256 of what the records hold; "" of sets without it
	Encoding    json.RawMessage `json:"encoding"`          // {"name":"original"} and its parameters
	Stored      string          `json:"stored"`            // the encoding in words, such as "original"
	KeepsFiles  bool            `json:"keeps_files"`       // records give the files back
	Fields      shard.Fields    `json:"fields,omitempty"`  // what samples have beside the label
	Here        []int           `json:"partitions_here"`   // those that this server has, and whole
	Joined      []int           `json:"joined,omitempty"`  // the samples of each of the sets that it was joined of
}

// A Moment is what happened in about a second before Time: what was delivered, and the share of the decoding threads' time that each
// stage took, 0 to 1.
type Moment struct {
	Time     float64 `json:"time"`   // seconds since 1970
	Images   float64 `json:"images"` // delivered, a second
	Bytes    float64 `json:"bytes"`  // stored bytes read, a second
	Read     float64 `json:"read"`
	Decode   float64 `json:"decode"`
	Resample float64 `json:"resample"`
	Wait     float64 `json:"wait"`
	Waiting  int     `json:"waiting"` // sessions with a running epoch that wait for batches: for the disk or the CPU
}

// A BadSample is one that could not be served.
type BadSample struct {
	Index int    `json:"index"`
	Key   string `json:"key"`          // "" if it cannot be read either
	By    *int   `json:"by,omitempty"` // index of its substitute; absent if there is none
	Error string `json:"error"`
}

// NewBadSample describes a bad sample of a batch.
func NewBadSample(b loader.BadSample) BadSample {
	bad := BadSample{Index: b.Index, Key: b.Key, Error: termsafe.Message(b.Err.Error())}
	if b.By >= 0 {
		bad.By = &b.By
	}
	return bad
}

// A SeenBadSample is the last occurrence of a bad sample.
type SeenBadSample struct {
	Time  float64 `json:"time"` // seconds since 1970
	Split string  `json:"split"`
	BadSample
}

// Reloaded answers a reload: what is served since, a sentence each.
type Reloaded struct {
	Changes []string `json:"changes"`
}

// Unchanged is the only change of a reload that finds the same splits and partitions, and yet opens every file anew.
const Unchanged = "the same splits and partitions are served as before; their files were opened anew, and sessions read those from their next epoch on"

// Judge says in WaitingFor, Verdict and Advice what a session of a server with so many threads waits for, and what to do about
// it. set is what it reads, store where that comes from if it is a bucket or a web server, feeders those that help, if any may.
func (s *Session) Judge(threads int, set *Set, store *Store, feeders *Feeders) {
	if s.WaitingFor == loader.Disk && store != nil && !store.onlyCache() {
		s.WaitingFor = loader.Store
	}
	pixels, coefficients := "", ""
	if set.Stored == "original" {
		coefficients = "\nOr store coefficients: the same pixels in about half the time, for a seventh more bytes." + set.repack("coefficients", "")
	}
	if set.KeepsFiles {
		pixels = "\nOr store pixels, which are read and decoded in a fraction of the time. Pixels of eval stay the same; those of train change, " +
			"as it crops the smaller images." + set.repack("pixels", " --resize 256")
	}
	switch s.WaitingFor {
	case loader.Client:
		s.Verdict, s.Advice = "training is the limit: batches were ready before they were asked for", "There is nothing to do here."
		if s.Epoch != nil && s.EpochSent == s.EpochBatches {
			s.Verdict = fmt.Sprintf("epoch %d: all batches are made, training is the limit", *s.Epoch)
		} else if s.Transport != SharedMemory {
			s.Verdict = "the client is the limit: it reads batches from its socket more slowly than they are made"
		}
	case loader.Disk:
		s.Verdict = "the disk is the limit: most of the time batches waited for reads"
		s.Advice = "Put the set on a faster disk, or give the machine memory for it." + pixels
		if store != nil {
			s.Advice = "All comes from the cache: put that on a faster disk, or give the machine memory for it." + pixels
		}
	case loader.Store:
		s.Verdict = "the store is the limit: most of the time batches waited for the bucket or web server"
		s.Advice = store.advice(pixels)
	case loader.CPU:
		s.Verdict = fmt.Sprintf("the CPU is the limit: %s most of the time decoding and resizing",
			bytesize.Counted(threads, "thread spent", "threads spent"))
		s.Advice = "Give the server more cores (--threads), or have other machines help (imgfeed feed)." + coefficients + pixels
		if feeders != nil {
			s.Verdict = fmt.Sprintf("the CPU is the limit: %s and %s do not keep up",
				bytesize.Counted(threads, "thread", "threads"), bytesize.Counted(feeders.connected(), "feeder", "feeders"))
			s.Advice = feeders.advice() + coefficients + pixels
		}
	default:
		s.Verdict, s.Advice = "no epoch is running", ""
	}
}

// repack returns a line with the command that stores the set in another encoding. A joined set has none: each of its sets needs one.
func (s *Set) repack(encoding, flags string) string {
	if s.Joined != nil {
		return ""
	}
	out := s.Path + "-" + encoding
	if strings.Contains(out, "://") {
		out = path.Base(out)
	}
	in, out := termsafe.Shell(s.Path), termsafe.Shell(out)
	return fmt.Sprintf("\n%simgshard repack %s -o %s --encoding %s%s", commandIndent, in, out, encoding, flags)
}

// Waits are the words for what a session waits for, the most urgent first.
var Waits = []loader.WaitingFor{loader.Store, loader.Disk, loader.CPU, loader.Client, loader.Idle}

// Judge says in Verdict and Advice what the most urgent of the sessions says.
func (st *Status) Judge() {
	st.Verdict, st.Advice = "no training process is connected", ""
	if f := st.Feeding; f != nil {
		st.Verdict = fmt.Sprintf("this is a feeder: %s of servers, %s images/s, threads busy for %.0f %% of the time",
			bytesize.Counted(int(f.Connections), "connection", "connections"), bytesize.Rounded(st.ImagesPerSecond), 100*f.Busy)
	}
	worst := len(Waits)
	for i := range st.Sessions {
		s := &st.Sessions[i]
		if at := slices.Index(Waits, s.WaitingFor); at < worst {
			worst, st.Verdict, st.Advice = at, s.Verdict, s.Advice
			if len(st.Sessions) > 1 && s.WaitingFor != loader.Client && s.WaitingFor != loader.Idle {
				st.Verdict = fmt.Sprintf("%s, rank %d: %s", s.Split, s.Rank, s.Verdict)
			}
		}
	}
}
