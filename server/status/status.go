// Package status is the account that a server gives of itself: what it serves, to whom, how fast, and what each session waits for.
//
// A server counts, and fills a [Status] with its counts at one moment. A [History] completes it: it compares the status with those of the
// last seconds, and so finds the rates, what each session waits for, the verdicts and the advice. The page, /status.json, the metrics
// and imgfeed status are views of it. The package also asks a running server for it. It serves imgfeed's own commands and may change
// from one version to the next.
package status

import (
	"encoding/json"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
)

// Status is what a server is doing. Times are in seconds, moments in seconds since 1970, counts since the server started. It is a value of
// one moment: nothing in it changes once it was judged, so any number may read it.
type Status struct {
	Server  string  `json:"server"`
	PID     int     `json:"pid"`
	Now     float64 `json:"now"`
	Started float64 `json:"started"`
	Page    string  `json:"page,omitempty"` // the URL of the status page
	Path    string  `json:"path,omitempty"` // the socket's path as serve printed it
	Verdict string  `json:"verdict"`        // what is the limit now
	Advice  string  `json:"advice"`         // what to do about it, "" if nothing

	Threads        int   `json:"threads"`
	RingBytes      int64 `json:"ring_bytes"` // memory of all sessions' rings
	RingLimitBytes int64 `json:"ring_limit_bytes"`

	Counts
	Errors          map[string]int64 `json:"errors"` // sent to clients, by kind
	ReadBytes       int64            `json:"read_bytes"`
	ImagesPerSecond float64          `json:"images_per_second"` // rate of the last seconds, like the sessions' rates
	// Seconds are times by stage: read, decode, resample and wait of all threads; slot_wait and write of all sessions.
	Seconds map[string]float64 `json:"seconds"`

	Store   *Store   `json:"store,omitempty"`   // nil without sets in buckets or on web servers
	Feeders *Feeders `json:"feeders,omitempty"` // if the server has any
	Feeding *Feeding `json:"feeding,omitempty"` // nil unless the server is a feeder

	Sets     []Set           `json:"sets"`
	Damaged  []string        `json:"damaged"`  // sets and partitions that are here but not served, a sentence each
	Sessions []Session       `json:"sessions"` // sorted by split and rank
	Bad      []SeenBadSample `json:"bad"`      // the last samples that could not be served, the newest first
	History  []Moment        `json:"history"`  // the last minutes, a moment each second, the newest last

	// For the metrics and the history alone.
	Splits      map[string]Counts `json:"-"` // counts of the served splits
	Processed   int64             `json:"-"` // images that went through the decoding threads
	Reading     float64           `json:"-"` // time that threads have waited for reads which are not over; Seconds has the others
	Workers     int               `json:"-"` // the threads, or those that work when no feeder does
	Connections int               `json:"-"`
}

// A Set is a set that is served, and where it lies.
type Set struct {
	ServedSet
	Path    string `json:"path"`
	InStore bool   `json:"-"` // it lies in a bucket or on a web server
}

// A Session is one of a [Status]. Its counts are those since it was opened. The server fills in all but the rate, the time left, what it
// waits for, the verdict and the advice, which [History.Judge] finds.
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

	WaitingFor WaitingFor `json:"waiting_for"`
	Verdict    string     `json:"verdict"`
	Advice     string     `json:"advice"` // what to do about it, "" if nothing

	Counts
	ImagesPerSecond float64 `json:"images_per_second"`

	Slots     int   `json:"slots"`
	SlotsFree int   `json:"slots_free"`
	SlotsLent int   `json:"slots_lent"`
	RingBytes int64 `json:"ring_bytes"`

	Set   *Set         `json:"-"` // the set that it reads
	Waits loader.Waits `json:"-"`
}

// SharedMemory is the transport of sessions whose batches are in shared memory.
const SharedMemory = "shm"

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

// Reloaded answers a reload: what is served since, a sentence each.
type Reloaded struct {
	Changes []string `json:"changes"`
}

// Unchanged is the only change of a reload that finds the same splits and partitions, and yet opens every file anew.
const Unchanged = "the same splits and partitions are served as before; their files were opened anew, and sessions read those " +
	"from their next epoch on"
