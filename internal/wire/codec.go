package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// A SyntaxError means that the bytes are not this protocol: a frame's length is out of range, or its text is not one
// JSON object. The stream cannot be trusted after it.
type SyntaxError struct{ Msg string }

func (e *SyntaxError) Error() string { return "wire: " + e.Msg }

// A RequestError means that a well-formed message is none that the server takes: an unknown type, an unknown field, or
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

// headerBytes is the size of the length that begins every frame.
const headerBytes = 4

// A Message is a struct whose fields are those of a JSON object. Kind is the value of the object's "type", which is no field.
type Message interface{ Kind() string }

// AppendFrame appends m's frame to dst: its length and its JSON text, whose first field is "type".
func AppendFrame(dst []byte, m Message) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return dst, fmt.Errorf("wire: %s: %w", m.Kind(), err)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, m.Kind()...)
	dst = append(dst, '"')
	if len(body) > len("{}") {
		dst = append(dst, ',')
	}
	dst = append(dst, body[1:]...)
	n := len(dst) - start - headerBytes
	if n > ReplyBytesMax {
		return dst[:start], fmt.Errorf("wire: %s: message of %d bytes, at most %d are possible", m.Kind(), n, ReplyBytesMax)
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(n))
	return dst, nil
}

// A Reader reads frames. It is not safe for concurrent use.
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
	if _, err := io.ReadFull(r.r, text); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return text, nil
}

// Types are the messages that one side takes, by kind.
type Types map[string]reflect.Type

// NewTypes returns the types of the given messages, whose values do not matter. Two of one kind are the caller's bug and panic.
func NewTypes(messages ...Message) Types {
	types := make(Types, len(messages))
	for _, m := range messages {
		if _, twice := types[m.Kind()]; twice {
			panic(fmt.Sprintf("wire: two messages of kind %q", m.Kind()))
		}
		types[m.Kind()] = reflect.TypeOf(m)
	}
	return types
}

// DecodeRequest decodes a client's message. The result holds nothing of text. Unknown fields are errors: a field that a
// newer client relies on must not be dropped in silence.
func (types Types) DecodeRequest(text []byte) (Message, error) { return types.decode(text, true) }

// DecodeReply decodes a server's message. Unknown fields are ignored, so that servers may add some.
func (types Types) DecodeReply(text []byte) (Message, error) { return types.decode(text, false) }

func (types Types) decode(text []byte, strict bool) (Message, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, &SyntaxError{"not a JSON object: " + err.Error()}
	}
	if fields == nil {
		return nil, &SyntaxError{"not a JSON object: null"}
	}
	var kind string
	if err := json.Unmarshal(fields["type"], &kind); err != nil || kind == "" {
		return nil, &RequestError{Msg: `message without a "type"`}
	}
	t, ok := types[kind]
	if !ok {
		return nil, &RequestError{Type: kind, Msg: "unknown message type"}
	}
	delete(fields, "type")
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, &SyntaxError{err.Error()}
	}
	value := reflect.New(t)
	d := json.NewDecoder(bytes.NewReader(body))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(value.Interface()); err != nil {
		return nil, &RequestError{Type: kind, Msg: explain(err)}
	}
	return value.Elem().Interface().(Message), nil
}

// explain turns encoding/json's words into the protocol's: fields instead of Go's struct fields and types.
func explain(err error) string {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return fmt.Sprintf("field %q cannot be a %s", te.Field, te.Value)
	}
	msg := err.Error()
	if rest, ok := bytes.CutPrefix([]byte(msg), []byte("json: ")); ok {
		msg = string(rest)
	}
	return msg
}
