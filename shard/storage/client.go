package storage

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// A Client opens storages, and holds what they share. Two clients share nothing.
type Client struct {
	// Context ends every request when it ends.
	Context context.Context
	// Timeout is how long requests are repeated before they fail.
	Timeout time.Duration
	// Cache keeps what is read over a network. It may be nil.
	Cache Cacher
	// Sources are places that indexes may name as their source, see [Storage.Source].
	Sources []string
	Counts  Counts

	slots  chan struct{} // holds one for each request that runs
	stall  time.Duration // stallTimeout; tests shorten it
	web    *http.Client
	signed atomic.Pointer[string] // the only host that gets the query of IMGFEED_URL_QUERY
}

// Counts count a client's requests.
type Counts struct {
	Requests, Retries atomic.Int64 // all, and those of them that repeat one that failed
	UnderWay          atomic.Int64
	Bytes             atomic.Int64                // bytes of bodies
	Failed            atomic.Pointer[RemoteError] // the last one for which a request was repeated
}

// NewClient returns a client without a cache. Its fields may be set before it is used.
func NewClient() *Client {
	return &Client{
		Context: context.Background(), Timeout: 5 * time.Minute,
		slots: make(chan struct{}, requestsFirst), stall: stallTimeout, web: newWebClient(),
	}
}

const (
	// requestsFirst is how many requests run at a time unless the user says so. With JPEGs of 110 KB they fill 15 Gbit/s at 30 ms.
	requestsFirst = 512
	requestsMax   = 1024
)

// SetRequestsMax limits how many requests run at a time, before the first of them. 0 is the default.
func (c *Client) SetRequestsMax(n int) { c.slots = make(chan struct{}, cmp.Or(n, requestsFirst)) }

// RequestsMax returns how many requests may run at a time.
func (c *Client) RequestsMax() int { return cap(c.slots) }

// Default is the client of [At], [WriterAt] and [NewFolder].
var Default = NewClient()
