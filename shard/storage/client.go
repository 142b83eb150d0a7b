package storage

import (
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

	limiter *requestLimiter
	stall   time.Duration // stallTimeout; tests shorten it
	web     *http.Client
	signed  atomic.Pointer[string] // the only host that gets the query of IMGFEED_URL_QUERY
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
		limiter: newRequestLimiter(requestsFirst), stall: stallTimeout, web: newWebClient(),
	}
}

// Default is the client of [At], [WriterAt] and [NewFolder].
var Default = NewClient()
