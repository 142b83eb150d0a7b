// Package server serves shard sets to training processes on the same machine: sessions on a Unix socket, each with its own
// ring of shared memory, all on one pool of decoding workers. docs/format/wire.md says what goes over the socket.
//
//	            requests                         batches
//	client ───────────────► connection ─┐    ┌─────────────► client
//	                                    ▼    │
//	                         session ──► epoch ──► loader.Stream ──► loader.Pool (shared)
//	                            │                     ▲
//	                            └──────── ring ───────┘ free slots
//
// A connection is one goroutine, which serves the requests in order. A session is what an open request has set up on it; it lives
// as long as the connection. While an epoch runs, a second goroutine takes finished batches from the loader and sends them. A
// client that does not read, or that keeps all its slots, stops its own stream and no other.
//
// Whatever a client does, it can cost nothing but its own session: requests are bounded in size and checked before
// anything changes, a slot comes back only if it was lent, memory is taken from one budget, and the end of a connection
// frees all of it. The server never reads what a client can write to.
package server
