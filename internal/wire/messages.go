package wire

import "encoding/json"

// A Message is one of the types of this file. Kind is the value of its "type" field.
type Message interface{ Kind() string }

// HelloRequest is the first message of every connection.
type HelloRequest struct {
	Version int `json:"version"`
}

// Hello answers [HelloRequest].
type Hello struct {
	Version int    `json:"version"` // the version that both will speak
	Server  string `json:"server"`  // name and version of the program
	PID     int    `json:"pid"`
	Rank    *int   `json:"rank,omitempty"`  // what a session gets that names no rank; absent when the server has no such default
	World   *int   `json:"world,omitempty"` // the same for world
	Sets    []Set  `json:"sets"`
}

// Set describes one split that the server can serve.
type Set struct {
	Split       string          `json:"split"`
	Samples     int             `json:"samples"`     // N
	Classes     int             `json:"classes"`     // how many; their names come by classes
	BuiltWorld  int             `json:"built_world"` // the number of partitions
	Fingerprint string          `json:"fingerprint"` // hex SHA-256 of what is served in what order
	Encoding    json.RawMessage `json:"encoding"`    // {"name":"jpeg"} and its parameters
	Partitions  []int           `json:"partitions"`  // those in reach of this server
}

// OpenRequest opens the connection's session: what is to be delivered, and how. A connection has one session at most.
type OpenRequest struct {
	Split      string          `json:"split,omitempty"`     // may be left out when the server has one set
	Transform  json.RawMessage `json:"transform"`           // a preset's name, or a list of operations
	BatchSize  int             `json:"batch_size"`          // samples, at least 1
	Shuffle    bool            `json:"shuffle,omitempty"`   // a new order each epoch
	Seed       *int64          `json:"seed,omitempty"`      // shuffle needs it; 0 when absent
	Policy     string          `json:"policy,omitempty"`    // pad, drop_last or uneven
	Rank       *int            `json:"rank,omitempty"`      // the server's own when absent
	World      *int            `json:"world,omitempty"`     // the server's own when absent
	Layout     string          `json:"layout,omitempty"`    // NHWC or NCHW
	Transport  string          `json:"transport,omitempty"` // shm or socket
	Slots      int             `json:"slots,omitempty"`     // 0 leaves it to the server
	WithParams bool            `json:"with_params,omitempty"`
	OnError    string          `json:"on_error,omitempty"` // error or blank

	Resampler string `json:"resampler,omitempty"` // of operations that name none: pillow-13 or pillow-12; the server's own when absent
	BitExact  bool   `json:"bit_exact,omitempty"` // refuse a transform whose results are not those of the original images
}

// Opened answers [OpenRequest]. With shared memory, its first byte carries the ring's descriptor.
type Opened struct {
	Session     uint64   `json:"session"`
	Split       string   `json:"split"`
	Samples     int      `json:"samples"`
	Fingerprint string   `json:"fingerprint"`
	Rank        int      `json:"rank"`
	World       int      `json:"world"`
	Height      int      `json:"height"` // pixels
	Width       int      `json:"width"`
	Channels    int      `json:"channels"`
	Slots       int      `json:"slots"`
	SlotBytes   int64    `json:"slot_bytes"` // slot s lies at s*slot_bytes in the ring
	Offsets     Offsets  `json:"offsets"`
	RingBytes   int64    `json:"ring_bytes"` // 0 when the transport is the socket
	Notes       []string `json:"notes"`      // sentences for the user, if any
}

// Offsets are the places of the arrays within a slot, in bytes. Params is 0 in a session without params.
type Offsets struct {
	Images  int64 `json:"images"`
	Labels  int64 `json:"labels"`
	Indices int64 `json:"indices"`
	Params  int64 `json:"params"`
}

// LabelsRequest asks for the label of every sample.
type LabelsRequest struct{}

// Labels answers [LabelsRequest]. Count int32 follow it, little-endian, in index order: -1 where the partition is out
// of reach.
type Labels struct {
	Count int `json:"count"`
}

// ClassesRequest asks for the names of the classes.
type ClassesRequest struct{}

// Classes answers [ClassesRequest]: class i has label i.
type Classes struct {
	Classes []string `json:"classes"`
}

// KeyRequest asks for the key of one sample.
type KeyRequest struct {
	Index int `json:"index"`
}

// Key answers [KeyRequest].
type Key struct {
	Index int    `json:"index"`
	Key   string `json:"key"`
}

// StartRequest begins an epoch, and ends the one that runs.
type StartRequest struct {
	Epoch    int64 `json:"epoch"`
	Consumed int64 `json:"consumed,omitempty"` // samples that all ranks together have had of this epoch
}

// Started answers [StartRequest]. Every batch and end that follows it, and every error of the epoch, carries its
// generation; none of an older generation comes after it.
type Started struct {
	Epoch      int64  `json:"epoch"`
	Batches    int    `json:"batches"` // of this rank, from consumed on
	Generation uint64 `json:"generation"`
}

// Batch delivers one batch: in a slot that is the client's until it releases it, or, when the transport is the socket,
// as Bytes raw bytes behind the message: images, labels, indices and params, without gaps.
type Batch struct {
	Generation uint64 `json:"generation"`
	Batch      int    `json:"batch"` // 0-based, from consumed on
	Count      int    `json:"count"` // samples; fewer than batch_size only in the last batch
	Slot       *int   `json:"slot,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
	Consumed   int64  `json:"consumed"`        // what start should be told to go on behind this batch
	Blank      []int  `json:"blank,omitempty"` // places in the batch whose sample could not be read (on_error: blank)
}

// End says that the epoch's last batch has been sent.
type End struct {
	Generation uint64 `json:"generation"`
	Epoch      int64  `json:"epoch"`
}

// Release gives a slot back. It has no reply.
type Release struct {
	Slot int `json:"slot"`
}

// Stop ends the running epoch, if any. It has no reply: batches on their way still arrive, and are to be released.
type Stop struct {
	Generation uint64 `json:"generation,omitempty"` // the epoch that is meant, so that a late one ends no other; 0 is whichever runs
}

// StatsRequest asks what the session has done and what it waits for.
type StatsRequest struct{}

// Stats answers [StatsRequest]. Times are in seconds, counts since the session was opened.
type Stats struct {
	WaitingFor string             `json:"waiting_for"` // disk, cpu, client or idle
	Words      string             `json:"words"`       // the same as a sentence, with its evidence
	Images     int64              `json:"images"`
	Batches    int64              `json:"batches"`
	Bytes      int64              `json:"bytes"`   // of arrays delivered
	Blanks     int64              `json:"blanks"`  // samples replaced under on_error: blank
	Seconds    map[string]float64 `json:"seconds"` // read, decode and so on: busy time of all workers; wait_*: of the session
	SlotsFree  int                `json:"slots_free"`
	SlotsLent  int                `json:"slots_lent"`
	Threads    int                `json:"threads"`
}

// Error says what went wrong. As the reply to a request it carries the request's type; as the end of an epoch it
// carries its generation. After a fatal one the server closes the connection.
type Error struct {
	ErrKind    string `json:"kind"`
	Message    string `json:"message"`
	Fatal      bool   `json:"fatal"`
	Request    string `json:"request,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
}

// Error returns the message, so that a client can hand it on as it is.
func (e Error) Error() string { return e.Message }

// Kind implements [Message] for each of the types.
func (HelloRequest) Kind() string   { return "hello" }
func (Hello) Kind() string          { return "hello" }
func (OpenRequest) Kind() string    { return "open" }
func (Opened) Kind() string         { return "opened" }
func (LabelsRequest) Kind() string  { return "labels" }
func (Labels) Kind() string         { return "labels" }
func (ClassesRequest) Kind() string { return "classes" }
func (Classes) Kind() string        { return "classes" }
func (KeyRequest) Kind() string     { return "key" }
func (Key) Kind() string            { return "key" }
func (StartRequest) Kind() string   { return "start" }
func (Started) Kind() string        { return "started" }
func (Batch) Kind() string          { return "batch" }
func (End) Kind() string            { return "end" }
func (Release) Kind() string        { return "release" }
func (Stop) Kind() string           { return "stop" }
func (StatsRequest) Kind() string   { return "stats" }
func (Stats) Kind() string          { return "stats" }
func (Error) Kind() string          { return "error" }

// Requests returns an empty value of each message that a client may send.
func Requests() []Message {
	return []Message{HelloRequest{}, OpenRequest{}, LabelsRequest{}, ClassesRequest{}, KeyRequest{}, StartRequest{}, Release{}, Stop{}, StatsRequest{}}
}

// Replies returns an empty value of each message that a server may send.
func Replies() []Message {
	return []Message{Hello{}, Opened{}, Labels{}, Classes{}, Key{}, Started{}, Batch{}, End{}, Stats{}, Error{}}
}
