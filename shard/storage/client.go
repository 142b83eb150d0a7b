package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Client opens storages, and holds what they share. Two clients share nothing.
//
// Its exported fields are set before the first storage is opened; of these the counts alone change afterwards. Then any goroutine may call
// its methods.
type Client struct {
	// Context ends every request when it ends.
	Context context.Context
	// Timeout is how long requests are repeated before they fail.
	Timeout time.Duration
	// Cache keeps what is read over a network. It may be nil.
	Cache Cacher
	// Sources are the URLs that indexes may name as their source, see [Storage.Source].
	Sources []string
	Counts  Counts

	// RequestsMax limits how many requests to a storage run at a time, in storages that are opened from now on. 0 means requestsFirst.
	RequestsMax int

	web    *http.Client
	signed atomic.Pointer[string] // the only host that gets the query of IMGFEED_URL_QUERY; it stays the first

	mu      sync.Mutex // guards opening, its users and its timer
	opening *Opening   // the one that has not ended; nil without one
}

// Counts count a client's requests. Each number is right; two loaded in turn may be of different moments.
type Counts struct {
	Requests, Retries atomic.Int64                // all, and those of them that repeat one that failed
	UnderWay, Allowed atomic.Int64                // requests in flight, and the limit of the storage that answered last
	Bytes             atomic.Int64                // bytes of bodies
	Failed            atomic.Pointer[RemoteError] // the last one for which a request was repeated
}

// NewClient returns a client without a cache. Its fields may be set before it is used.
func NewClient() *Client {
	return &Client{Context: context.Background(), Timeout: 5 * time.Minute, web: newWebClient()}
}

const (
	// requestsFirst is how many requests to a storage run at a time at most unless the user says so. With JPEGs of 110 KB they fill 15
	// Gbit/s at 30 ms.
	requestsFirst = 512
	requestsMax   = 1024
)

// Default is the client of [At], [WriterAt] and [NewFolder].
var Default = NewClient()

// remotes are the kinds of storage behind a network, by the scheme of their URLs.
var remotes = map[string]func(*Client, *url.URL) (objects, error){
	"s3":    newBucket,
	"gs":    newGCSBucket,
	"https": newWeb,
	"http":  newWeb,
	"hf":    newHub,
}

// At is [Client.At] of the default client.
func At(address string) (Storage, error) { return Default.At(address) }

// At returns the storage that the user names: a folder's path, or a URL of one of the schemes of remotes. It makes no request.
func (c *Client) At(address string) (Storage, error) { return c.at(address, true) }

// WriterAt returns the default client's storage to write to, by a folder's path, or the URL of a bucket.
func WriterAt(address string) (Writer, error) {
	s, err := At(address)
	if err != nil {
		return nil, err
	}
	if r, is := s.(*remote); is {
		if _, is := r.objects.(uploader); !is {
			return nil, fmt.Errorf("%s: nothing can be written there: name a folder or a bucket (s3://)", address)
		}
	}
	return s.(Writer), nil
}

// source is [Storage.Source] of a storage.
func (c *Client) source(address, index string) (Storage, error) {
	named := slices.ContainsFunc(c.Sources, func(allowed string) bool {
		return strings.HasPrefix(address+"/", strings.TrimSuffix(allowed, "/")+"/")
	})
	if IsRemote(index) {
		root, _ := Root(address)
		own, _ := Root(index)
		if named = named && IsRemote(address) || root == own; !named {
			return nil, fmt.Errorf("they are at %s, but an index read over a network may use only its own host and bucket: if you "+
				"trust it, add --allow-source URL, or copy the index to this machine", address)
		}
	}
	return c.at(address, named)
}

// at opens a storage. named says that the user has named its address: only such requests are signed.
func (c *Client) at(address string, named bool) (Storage, error) {
	if !IsRemote(address) {
		f := NewFolder(address)
		f.client = c
		return f, nil
	}
	u, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	o, err := remotes[u.Scheme](c, u)
	if w, is := o.(*web); is && named {
		err = w.sign()
	}
	if err != nil {
		return nil, err
	}
	return &remote{client: c, address: address, objects: o, gate: newGate(c), outage: outage{client: c}}, nil
}

// An Opening bounds the time in which sets are found and opened: [Client.Timeout] for all requests together, also of other openings that
// begin before it ends. All of these are one Opening.
//
// What holds, under the client's mutex: the client has it while it has users. Its last End makes it over, for good, and stops the timer,
// which nothing begins anew afterwards. Requests that run by then go on without a limit for all; new ones have the client's context.
type Opening struct {
	client *Client
	ctx    context.Context // ends with the client's, or when the timer fires
	begun  time.Time
	timer  *time.Timer
	users  int         // guarded by the client's mutex
	steps  atomic.Bool // each answer begins the time anew; never false again
	over   atomic.Bool // written under the client's mutex; never false again
}

var errOpening = errors.New("opening took too long")

// Opening begins one, or joins the one that has not ended. Each is followed by one [Opening.End].
func (c *Client) Opening() *Opening {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opening == nil {
		ctx, cancel := context.WithCancelCause(c.Context)
		timer := time.AfterFunc(c.Timeout, func() { cancel(errOpening) })
		c.opening = &Opening{client: c, ctx: ctx, begun: time.Now(), timer: timer}
	}
	c.opening.users++
	return c.opening
}

// At is [Client.At] for a storage whose requests are part of the opening.
func (o *Opening) At(address string) (Storage, error) {
	s, err := o.client.At(address)
	if r, is := s.(*remote); is {
		r.opening = o
	}
	return s, err
}

// Steps begins the time anew with each answer from now on: sets of many shards take many.
func (o *Opening) Steps() {
	o.steps.Store(true)
	o.answered()
}

// answered begins the time anew after an answer, if [Opening.Steps] has said so. Requests that are part of no opening have a nil one.
func (o *Opening) answered() {
	if o == nil || !o.steps.Load() || o.over.Load() {
		return
	}
	o.client.mu.Lock()
	defer o.client.mu.Unlock()
	if !o.over.Load() { // End may have stopped the time just now
		o.timer.Reset(o.client.Timeout)
	}
}

// End ends the opening. What was opened is read without a limit for all together.
func (o *Opening) End() {
	o.client.mu.Lock()
	defer o.client.mu.Unlock()
	if o.users--; o.users == 0 {
		o.client.opening = nil
		o.over.Store(true)
		o.timer.Stop()
	}
}

// IsRemote reports whether an address that the user names is a URL. A path may hold :// elsewhere than after a scheme.
func IsRemote(address string) bool {
	scheme, _, found := strings.Cut(address, "://")
	return found && scheme != "" && !strings.ContainsAny(scheme, "/.")
}

// CheckSecret refuses a URL with a secret in it, or name=URL, since command lines, logs and pages show such texts. The error hides it.
func CheckSecret(text string) error {
	before, rest, found := strings.Cut(text, "://")
	scheme := before[strings.LastIndexAny(before, "=, ")+1:]
	if !found || scheme == "" || strings.ContainsAny(scheme, "/.") {
		return nil
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return fmt.Errorf("a text that begins with %s:// is not a URL", scheme)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s://%s%s: a URL has no user, password, query or fragment here: credentials come from the environment "+
			"or their usual files, and a query that signs requests from IMGFEED_URL_QUERY", scheme, u.Host, u.Path)
	}
	return nil
}

// parseURL checks a URL.
func parseURL(address string) (*url.URL, error) {
	scheme, _, _ := strings.Cut(address, "://")
	if remotes[scheme] == nil {
		known := strings.Join(slices.Sorted(maps.Keys(remotes)), "://, ")
		return nil, fmt.Errorf("%s://: an unknown kind of URL: want a folder or one of %s://", scheme, known)
	}
	if err := CheckSecret(address); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return nil, fmt.Errorf("%s: .. cannot be part of a URL", address)
	case u.Host == "":
		return nil, fmt.Errorf("%s: the host or bucket is missing", address)
	}
	return u, nil
}

// Join returns the URL or path of a name, with forward slashes, below another one.
func Join(address, name string) string {
	if IsRemote(address) {
		return strings.TrimSuffix(address, "/") + "/" + strings.TrimPrefix(path.Clean("/"+name), "/")
	}
	return filepath.Join(address, filepath.FromSlash(name))
}

// Root splits a URL into the address of a bucket, a server or a repository, and a name there.
func Root(address string) (root, name string) {
	scheme, rest, _ := strings.Cut(address, "://")
	depth := 1
	if scheme == "hf" {
		depth = 3
	}
	parts := strings.SplitN(rest, "/", depth+1)
	if len(parts) <= depth {
		return address, ""
	}
	return scheme + "://" + strings.Join(parts[:depth], "/"), strings.Trim(parts[depth], "/")
}
