// Package wire is the protocol between imgfeed and its clients, as docs/format/wire.md specifies it: length-prefixed
// JSON messages on a Unix stream socket, with the descriptor of the shared memory riding on one of them.
//
//	    4 bytes, little-endian        length bytes
//	┌─────────────────────────┬──────────────────────────────┐
//	│ length of the JSON text │ {"type":"hello","version":1} │
//	└─────────────────────────┴──────────────────────────────┘
//
// A few replies announce raw bytes that follow them without a frame: the labels, and the arrays of a batch when the
// transport is the socket itself.
//
// This package knows how messages are framed, encoded and decoded. The messages themselves are package server's, each beside
// what answers it.
package wire

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
)
