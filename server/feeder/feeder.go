// Package feeder lets other machines make samples for a server. It has both ends of a connection between the two, which
// docs/format/wire.md specifies.
//
//	server: a stream ─► loader.Pool.ServeRemote ─► link ──TCP──► Serve ─► loader.Pool.Make: feeder
//
// A [List] keeps links to the feeders that a server names. For each piece a link sends a feed message with the numbers of its samples;
// the text of the message is the same for all pieces of a session. [Serve] answers with a made message and the samples. A feeder keeps
// nothing of who asks: each piece comes with all that its samples depend on. An [Access] says who may connect.
package feeder

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
)

// A Host is the server that feeders make samples for, or that makes samples for others. Its fields are set before it is used. Every
// connection has a goroutine of its own, so all functions are called by many at a time.
type Host struct {
	Name    string // program and version, which must be the same at both ends
	Pool    *loader.Pool
	Access  Access
	Log     *slog.Logger
	Running *sync.WaitGroup // goroutines of the links
	// Warn logs a trouble of a kind, unless it has just logged another one of the kind.
	Warn func(log *slog.Logger, kind, message string, args ...any)
	// Sets returns what is served now, and whether one of the sets lies behind a network. Hold keeps a set open until release is called.
	Sets func() (sets []Set, remote bool)
	Hold func(split string) (described Set, set *loader.Dataset, release func(), err error)
}

// The messages of both directions.
var (
	Requests = wire.NewMessages(map[string]any{"hello": wire.Hello{}, "feed": Request{}})
	Replies  = wire.NewMessages(map[string]any{"hello": HelloReply{}, "made": Made{}, "error": wire.Refusal{}})
)

const (
	// pieceBytesMax bounds a piece of more than one sample.
	pieceBytesMax = 256 << 20
	// connectionsMax bounds how many connections a feeder may ask for, and greetingsMax how many may have sent no hello yet.
	connectionsMax = 1024
	greetingsMax   = 256
	// HelloTimeout bounds how long a peer may take to greet, and messageTimeout how long to send a message that it has begun, or to
	// receive one.
	HelloTimeout   = 5 * time.Second
	messageTimeout = 10 * time.Second
)

// HelloReply answers [wire.Hello].
type HelloReply struct {
	Version     int    `json:"version"`
	Server      string `json:"server"`      // name and version of the program, which must be the other's
	Connections int    `json:"connections"` // connections that keep the feeder busy
	Sets        []Set  `json:"sets"`
}

// A Set tells the data of a split from any other. Equal ones have the same samples, in the same order, stored in the same way.
type Set struct {
	Split       string `json:"split"`
	Fingerprint string `json:"fingerprint"`
	Content     string `json:"content,omitempty"`
	Encoding    string `json:"encoding"` // JSON, as the manifest has it
}

// Request asks for a piece. Its numbers follow. Everything that samples depend on is in it, or in them.
type Request struct {
	Set        Set             `json:"set"`
	Transform  json.RawMessage `json:"transform"` // a list of operations or an object with views, with every parameter
	Layout     string          `json:"layout"`
	Fields     []string        `json:"fields,omitempty"`
	WithParams bool            `json:"with_params,omitempty"`
	Boxes      string          `json:"boxes,omitempty"` // the same as in a server's open request
	BoxesUnit  string          `json:"boxes_unit,omitempty"`
}

// Made is followed by a byte for each sample of the piece, 1 if it was made, and by the memory of [loader.Slot.AppendSamples].
type Made struct{}

// MadeFrame is the frame of a Made: the same for every piece.
var MadeFrame, _ = Replies.AppendFrame(nil, Made{})

// AppendNumbers appends the numbers that follow a Request: count, seed and epoch, then of each sample index and repetition, all int64.
func AppendNumbers(dst []byte, p *loader.Piece, count int) []byte {
	for _, n := range [...]int64{int64(count), p.Seed, int64(p.Epoch)} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	for i, index := range p.Indices[:count] {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(index))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Repetition(i)))
	}
	return dst
}

// ReadNumbers is the other end of AppendNumbers; samples is how many the set has. Every number is checked before the piece is made of it,
// as a peer may send any.
func ReadNumbers(r io.Reader, p *loader.Piece, samples int) error {
	var buf [16 * loader.PieceSamplesMax]byte
	number := func(i int) int { return int(binary.LittleEndian.Uint64(buf[8*i:])) }
	if _, err := io.ReadFull(r, buf[:24]); err != nil {
		return err
	}
	count, epoch := number(0), number(2)
	if count < 1 || count > loader.PieceSamplesMax || epoch < 0 {
		return badRequest("feed", "a piece of %d samples of epoch %d: want 1 to %d samples, and epoch 0 or later",
			count, epoch, loader.PieceSamplesMax)
	}
	p.Seed, p.Epoch, p.Indices, p.Repetitions = int64(number(1)), epoch, p.Indices[:0], p.Repetitions[:0]
	if _, err := io.ReadFull(r, buf[:16*count]); err != nil {
		return err
	}
	for i := range count {
		index, repetition := number(2*i), number(2*i+1)
		if index < 0 || index >= samples || repetition < 0 {
			return badRequest("feed", "sample %d, repetition %d: the set has %d samples", index, repetition, samples)
		}
		p.Indices, p.Repetitions = append(p.Indices, index), append(p.Repetitions, repetition)
	}
	return nil
}

// A BugError means that serving has panicked. It costs what was served, and nothing else.
type BugError struct{ Value any }

func (e *BugError) Error() string {
	return fmt.Sprintf("a bug in imgfeed: %v; please report it with this server's log", e.Value)
}

// Guard calls serve, and returns its error. A panic is logged, and becomes a [*BugError]. Requests of clients, epochs and other machines'
// servers run under it, so what they hold must be released by deferred calls.
func Guard(log *slog.Logger, serve func() error) error {
	err := shard.Guard(serve)
	if panicked, ok := errors.AsType[*shard.PanicError](err); ok {
		log.Error("panic", "value", panicked.Value, "stack", string(panicked.Stack))
		return &BugError{panicked.Value}
	}
	return err
}

func badRequest(request, format string, args ...any) error {
	return &wire.RequestError{Type: request, Msg: fmt.Sprintf(format, args...)}
}
