// Package wire is the protocol between imgfeed and its clients, as docs/format/wire.md specifies it. It has
// length-prefixed JSON messages on a Unix stream socket. The descriptor of the shared memory rides on one of them.
//
//	    4 bytes, little-endian        length bytes
//	┌─────────────────────────┬──────────────────────────────┐
//	│ length of the JSON text │ {"type":"hello","version":1} │
//	└─────────────────────────┴──────────────────────────────┘
//
// Raw bytes without a frame follow a few messages: the labels, for instance, and the arrays of a batch when the transport
// is the socket itself.
//
// This package frames, encodes and decodes messages. Package server defines the messages, each beside the method that
// answers it.
package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Version is the protocol's version. A client names the version that it speaks in its hello; the server refuses those
// that it does not know.
//
//	1  the first: hello, open, labels, classes, key, start, release, stop, stats
const Version = 1

const (
	// RequestBytesMax bounds the JSON text of a client's message. A longer one ends the connection.
	RequestBytesMax = 64 << 10
	// ReplyBytesMax bounds the JSON text of a server's message. Lists that may be longer come in parts or as raw bytes.
	ReplyBytesMax = 16 << 20

	headerBytes = 4 // the length that begins every frame
)

// A SyntaxError means that the bytes are not this protocol: a frame's length is out of range, or its text is not one
// JSON object. The stream cannot be trusted after it.
type SyntaxError struct{ Msg string }

func (e *SyntaxError) Error() string { return "wire: " + e.Msg }

// A RequestError means that the server does not take a well-formed message: it has an unknown type, an unknown field, or
// a field of the wrong JSON type. The next message can be read as if nothing had happened.
type RequestError struct {
	Type string // the message's type, if it had one
	Msg  string
}

func (e *RequestError) Error() string {
	if e.Type == "" {
		return "wire: " + e.Msg
	}
	return fmt.Sprintf("wire: %s: %s", e.Type, e.Msg)
}

// Messages are the messages of one direction. A message is a struct whose fields are those of a JSON object; its kind is the value of the
// object's "type", which is not a field. Both maps are complete once NewMessages has returned, and any goroutine reads them.
type Messages struct {
	types map[string]reflect.Type
	kinds map[reflect.Type]string
}

// NewMessages takes an empty message of each kind.
func NewMessages(empty map[string]any) Messages {
	m := Messages{map[string]reflect.Type{}, map[reflect.Type]string{}}
	for kind, message := range empty {
		t := reflect.TypeOf(message)
		m.types[kind], m.kinds[t] = t, kind
	}
	return m
}

// AppendFrame appends a message's frame to dst: its length and its JSON text, whose first field is "type".
func (m Messages) AppendFrame(dst []byte, message any) ([]byte, error) {
	kind := m.kinds[reflect.TypeOf(message)]
	body, err := json.Marshal(message)
	if err != nil {
		return dst, fmt.Errorf("wire: %s: %w", kind, err)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, '"')
	if len(body) > len("{}") {
		dst = append(dst, ',')
	}
	dst = append(dst, body[1:]...)
	n := len(dst) - start - headerBytes
	if n > ReplyBytesMax {
		return dst[:start], fmt.Errorf("wire: %s: message of %d bytes, at most %d are possible", kind, n, ReplyBytesMax)
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(n))
	return dst, nil
}

// DecodeRequest decodes a client's message and returns its kind. The result holds nothing of text. Unknown fields are
// errors: a field that a newer client relies on must not be dropped in silence.
func (m Messages) DecodeRequest(text []byte) (kind string, message any, err error) {
	return m.decode(text, true)
}

// DecodeReply decodes a server's message and returns its kind. Unknown fields are ignored, so that servers may add some.
func (m Messages) DecodeReply(text []byte) (kind string, message any, err error) {
	return m.decode(text, false)
}

// decode reads the type first, wherever it stands in the object, and then the other fields as those of its struct.
func (m Messages) decode(text []byte, strict bool) (kind string, message any, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", nil, &SyntaxError{"not a JSON object: " + err.Error()}
	}
	if fields == nil {
		return "", nil, &SyntaxError{"not a JSON object: null"}
	}
	if err := json.Unmarshal(fields["type"], &kind); err != nil || kind == "" {
		return "", nil, &RequestError{Msg: `message without a "type"`}
	}
	t, known := m.types[kind]
	if !known {
		return kind, nil, &RequestError{Type: kind, Msg: "unknown message type"}
	}
	delete(fields, "type")
	body, _ := json.Marshal(fields) // they were JSON
	value := reflect.New(t)
	d := json.NewDecoder(bytes.NewReader(body))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(value.Interface()); err != nil {
		return kind, nil, &RequestError{Type: kind, Msg: explain(err)}
	}
	return kind, value.Elem().Interface(), nil
}

// explain turns encoding/json's words into the protocol's: fields instead of Go's struct fields and types.
func explain(err error) string {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("field %q cannot be a %s", te.Field, te.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// Hello is the first message to a server or a feeder.
type Hello struct {
	Version int `json:"version"`
}

// A Refusal is the message "error" for peers that only read its text.
type Refusal struct {
	Message string `json:"message"`
}

func (r Refusal) Error() string { return r.Message }

// Ask sends a message, and returns the answer, which must be an M. An error of the peer is a [Refusal].
func Ask[M any](conn io.Writer, frames *Reader, requests, replies Messages, message any) (answer M, err error) {
	frame, err := requests.AppendFrame(nil, message)
	if err != nil {
		return answer, err
	}
	if _, err := conn.Write(frame); err != nil {
		return answer, err
	}
	text, err := frames.Next()
	if err != nil {
		return answer, err
	}
	return Answer[M](replies, text)
}

// Answer decodes an answer as [Ask] does.
func Answer[M any](replies Messages, text []byte) (answer M, err error) {
	_, reply, err := replies.DecodeReply(text)
	if err != nil {
		return answer, err
	}
	switch reply := reply.(type) {
	case M:
		return reply, nil
	case Refusal:
		return answer, reply
	}
	return answer, fmt.Errorf("the answer is %.80s", text)
}

// A Reader reads frames. It is not safe for concurrent use. It has one buffer, which grows to the longest frame and is used for each, so a
// message must be decoded before the next one is read.
type Reader struct {
	r      io.Reader
	max    int
	header [headerBytes]byte
	buf    []byte
}

// NewReader returns a Reader of frames of at most max bytes: [RequestBytesMax] in a server, [ReplyBytesMax] in a client.
// Give it a buffered reader, unless descriptors may come with the bytes.
func NewReader(r io.Reader, max int) *Reader { return &Reader{r: r, max: max} }

// Next returns the JSON text of the next frame, which is valid until the next call. It returns io.EOF when the stream
// ends between two frames, io.ErrUnexpectedEOF when it ends within one, and a [*SyntaxError] when the length is out of
// range.
func (r *Reader) Next() ([]byte, error) {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(r.header[:])
	if n < uint32(len("{}")) || int64(n) > int64(r.max) {
		return nil, &SyntaxError{fmt.Sprintf("frame of %d bytes, want 2 to %d", n, r.max)}
	}
	if cap(r.buf) < int(n) {
		r.buf = make([]byte, max(int(n), 512))
	}
	text := r.buf[:n]
	if _, err := io.ReadFull(r.r, text); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return text, nil
}

// Accept serves the connections to a listener until ctx ends, and then returns nil, or the listener's error. It closes the listener. failed
// takes errors that pass. Both functions are called by Accept's goroutine: serve begins one for the connection, which closes it, and
// returns.
func Accept(ctx context.Context, l net.Listener, failed func(error), serve func(net.Conn)) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case err == nil:
			serve(conn)
		case errors.Is(err, net.ErrClosed):
			return err
		default: // out of descriptors, most likely: they come back when a connection ends
			failed(err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// WriteRights writes frame, with the descriptor of f on its first byte (SCM_RIGHTS, unix(7)). f stays open.
func WriteRights(conn *net.UnixConn, frame []byte, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var writeErr error
	err = raw.Control(func(fd uintptr) {
		n, _, writeErr = conn.WriteMsgUnix(frame, unix.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(err, writeErr); err != nil {
		return err
	}
	if n < len(frame) { // a stream socket may take a part; the descriptor went with the first byte
		_, err = conn.Write(frame[n:])
	}
	return err
}

// CheckPath refuses a socket path that is too long. The system would only say "invalid argument".
func CheckPath(path string) error {
	const most = 107 // sockaddr_un (unix(7)) has 108 bytes with the final zero
	if len(path) > most {
		return fmt.Errorf("socket path of %d bytes, the system's limit is %d: choose a shorter one with --socket (%s)",
			len(path), most, path)
	}
	return nil
}
