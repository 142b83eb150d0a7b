// Package server serves shard sets to training processes on the same machine: sessions on a Unix socket, each with its own
// ring of shared memory, all on one pool of decoding workers.
package server
