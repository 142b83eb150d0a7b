package server

import (
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// The wire between a server and a feeder, which docs/format/wire.md specifies: for each piece a feed message with the numbers of its samples, whose text is the same for all
// pieces of a session, and a made message with the samples.
var (
	feedRequests = wire.NewMessages(map[string]any{"hello": feedHello{}, "feed": feedRequest{}})
	feedReplies  = wire.NewMessages(map[string]any{"hello": feedHelloReply{}, "made": madeReply{}, "error": errorMessage{}})
)

const (
	// feedBytesMax bounds a piece of more than one sample.
	feedBytesMax = 256 << 20
	// feedConnectionsMax bounds what a feeder may ask for.
	feedConnectionsMax = 1024
)

// feedHello is the first message to a feeder.
type feedHello struct {
	Version int    `json:"version"`
	Token   string `json:"token,omitempty"`
}

// feedHelloReply answers [feedHello].
type feedHelloReply struct {
	Version     int       `json:"version"`
	Server      string    `json:"server"`      // name and version of the program, which must be the other's
	Connections int       `json:"connections"` // that keep it busy
	Sets        []feedSet `json:"sets"`
}

// A feedSet tells the data of a split from any other.
type feedSet struct {
	Split       string `json:"split"`
	Fingerprint string `json:"fingerprint"`
	Content     string `json:"content,omitempty"`
	Encoding    string `json:"encoding"` // JSON, as the manifest has it
}

func feedSetOf(split string, set *openSet) feedSet {
	d := set.described
	return feedSet{split, d.Fingerprint, d.Content, string(d.Encoding)}
}

// feedSets are those of the sets that are served now.
func (s *Server) feedSets() []feedSet {
	catalog, sets := s.catalog.Load(), []feedSet{}
	for _, split := range catalog.splits {
		sets = append(sets, feedSetOf(split, catalog.sets[split]))
	}
	return sets
}

// feedRequest asks for a piece, whose numbers follow. Everything that samples depend on is in it, or in them.
type feedRequest struct {
	Set        feedSet         `json:"set"`
	Transform  json.RawMessage `json:"transform"` // a list of operations or an object with views, with every parameter
	Layout     string          `json:"layout"`
	Fields     []string        `json:"fields,omitempty"`
	WithParams bool            `json:"with_params,omitempty"`
}

// madeReply is followed by a byte for each sample of the piece, 1 if it was made, and by the memory of [loader.Slot.AppendPlaces].
type madeReply struct{}

// madeFrame is the frame of a madeReply: the same for every piece.
var madeFrame, _ = feedReplies.AppendFrame(nil, madeReply{})

// appendNumbers appends what follows a feedRequest: count, seed and epoch, then of each sample index and repetition, all int64.
func appendNumbers(dst []byte, p *loader.Piece, count int) []byte {
	for _, n := range [...]int64{int64(count), p.Seed, int64(p.Epoch)} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	for i, index := range p.Indices[:count] {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(index))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Repetition(i)))
	}
	return dst
}

// readNumbers is the other end of appendNumbers; samples is how many the set has.
func readNumbers(r io.Reader, p *loader.Piece, samples int) error {
	var buf [16 * loader.PieceSamplesMax]byte
	number := func(i int) int { return int(binary.LittleEndian.Uint64(buf[8*i:])) }
	if _, err := io.ReadFull(r, buf[:24]); err != nil {
		return err
	}
	count, epoch := number(0), number(2)
	if count < 1 || count > loader.PieceSamplesMax || epoch < 0 {
		return badRequest("a piece of %d samples of epoch %d: want 1 to %d samples, and epoch 0 or later", count, epoch, loader.PieceSamplesMax)
	}
	p.Seed, p.Epoch, p.Indices, p.Repetitions = int64(number(1)), epoch, p.Indices[:0], p.Repetitions[:0]
	if _, err := io.ReadFull(r, buf[:16*count]); err != nil {
		return err
	}
	for i := range count {
		index, repetition := number(2*i), number(2*i+1)
		if index < 0 || index >= samples || repetition < 0 {
			return badRequest("sample %d, repetition %d: the set has %d samples", index, repetition, samples)
		}
		p.Indices, p.Repetitions = append(p.Indices, index), append(p.Repetitions, repetition)
	}
	return nil
}

// errorFrame is the frame of an error that ends a connection.
func errorFrame(request string, err error) []byte {
	frame, _ := feedReplies.AppendFrame(nil, errorMessage{ErrKind: kindOf(err), Message: termsafe.Message(err.Error()), Fatal: true, Request: request})
	return frame
}
