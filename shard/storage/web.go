package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// newWebClient makes the client for web servers. Each request has a connection of its own: on one that HTTP/2 shares, a lost packet would
// hold up all.
func newWebClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	prepareTransport(t)
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

var errRedirect = errors.New("the redirect is not followed")

// checkRedirect follows a redirect to another host without secrets: it gets no query in Referer, and no token.
func checkRedirect(r *http.Request, before []*http.Request) error {
	first := before[0].URL
	r.Header.Del("Referer")
	if r.URL.Host != first.Host {
		r.Header.Del("Authorization")
	}
	switch {
	case len(before) > 5:
		return fmt.Errorf("%w: it is the sixth in a row", errRedirect)
	case r.URL.Scheme != first.Scheme && r.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads from %s to %s", errRedirect, first.Scheme, r.URL.Scheme)
	}
	return nil
}

// prepareTransport allows a connection for each request, by HTTP/1. Compression is off: a range is one of the stored bytes.
func prepareTransport(t *http.Transport) {
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	t.ResponseHeaderTimeout = 10 * stallTimeout // limits uploads; reads end sooner, by the other answers
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, requestsMax, 0
	t.DisableCompression = true
	t.ForceAttemptHTTP2, t.Protocols = false, new(http.Protocols)
	t.Protocols.SetHTTP1(true)
}

// A web is a folder of any web server that answers range requests. It lists nothing: web servers have no common way to list a folder.
// Nothing in it changes once it is handed out, so any number of requests run at a time.
type web struct {
	client    *Client
	base      *url.URL
	query     string                    // signature of each request; no error shows it
	withheld  bool                      // the query is not for this URL
	authorize func(*http.Request) error // optional
}

func newWeb(c *Client, u *url.URL) (objects, error) {
	return &web{client: c, base: u, withheld: os.Getenv("IMGFEED_URL_QUERY") != ""}, nil
}

// sign adds the query of IMGFEED_URL_QUERY to requests. The first storage of a client says which host gets it, even if several are opened
// at the same time.
func (w *web) sign() error {
	w.query, w.withheld = strings.TrimPrefix(os.Getenv("IMGFEED_URL_QUERY"), "?"), false
	if w.query == "" || w.client.signed.CompareAndSwap(nil, &w.base.Host) || *w.client.signed.Load() == w.base.Host {
		return nil
	}
	return fmt.Errorf("IMGFEED_URL_QUERY signs requests to %s, and would go to %s too: use one host at a time",
		*w.client.signed.Load(), w.base.Host)
}

// get implements objects. An answer with any other status than 200 and 206 is a [RemoteError].
func (w *web) get(ctx context.Context, name string, offset, length int64, version string) (*object, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.origin(name), nil)
	if err != nil {
		return nil, err
	}
	if w.query != "" {
		request.URL.RawQuery = w.query
	}
	if w.authorize != nil {
		if err := w.authorize(request); err != nil {
			return nil, err
		}
	}
	if length >= 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	}
	if strings.HasPrefix(version, `"`) { // a date is compared when it has come
		request.Header.Set("If-Match", version)
	}
	answer, err := w.client.web.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	o := &object{
		body: answer.Body, size: answer.ContentLength, version: answer.Header.Get("ETag"),
		encoding: answer.Header.Get("Content-Encoding"), request: answer.Header.Get("X-Request-Id"),
	}
	if !strings.HasPrefix(o.version, `"`) { // a weak one says that files mean the same, not that they are
		o.version = answer.Header.Get("Last-Modified")
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return o, nil
	case http.StatusPartialContent:
		o.partial, o.header = true, answer.Header.Get("Content-Range")
		return o, nil
	}
	io.CopyN(io.Discard, answer.Body, 4<<10) // so that the connection can be used again
	answer.Body.Close()
	status := answer.StatusCode
	failed := &RemoteError{Status: status, Request: o.request, Err: fmt.Errorf("status %d %s", status, http.StatusText(status))}
	if w.withheld && errors.Is(failed, fs.ErrPermission) {
		failed.Err = fmt.Errorf("%w (IMGFEED_URL_QUERY is sent only to URLs that you name; this one is named by an index: "+
			"--allow-source allows it)", failed.Err)
	}
	return nil, failed
}

func (w *web) origin(name string) string {
	return w.base.JoinPath((&url.URL{Path: name}).EscapedPath()).String()
}

// getJSON requests a listing of another address, with the same authorization.
func (w *web) getJSON(ctx context.Context, at *url.URL, into any) error {
	o, err := (&web{client: w.client, base: at, authorize: w.authorize}).get(ctx, "", 0, -1, "")
	if err != nil {
		return err
	}
	defer o.body.Close()
	return json.NewDecoder(io.LimitReader(o.body, 16<<20)).Decode(into)
}

// withoutURL removes the URL that errors of package http begin with: it may be signed.
func withoutURL(err error) error {
	u, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case u.Err == io.EOF:
		return errors.New("the server closed the connection")
	case strings.Contains(u.Err.Error(), "Location header"):
		return fmt.Errorf("%w: its address is not a URL", errRedirect)
	}
	return u.Err
}

// A hub is a folder of a dataset's repository at Hugging Face.
type hub struct {
	web
	tree *url.URL // lists the folder
}

// newHub takes hf://datasets/owner/name[@revision][/folder].
func newHub(c *Client, u *url.URL) (objects, error) {
	owner, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	name, folder, _ := strings.Cut(rest, "/")
	name, revision, _ := strings.Cut(name, "@")
	if u.Host != "datasets" || owner == "" || name == "" {
		return nil, fmt.Errorf("%s: want hf://datasets/owner/name, with @revision and a folder after it if there are any", u)
	}
	revision = url.PathEscape(cmp.Or(revision, "main"))
	endpoint, err := url.Parse(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"))
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("HF_ENDPOINT is not a URL")
	}
	h := &hub{
		web:  web{client: c, base: endpoint.JoinPath("datasets", owner, name, "resolve", revision, folder)},
		tree: endpoint.JoinPath("api/datasets", owner, name, "tree", revision, folder),
	}
	if token := hubToken(); token != "" {
		h.authorize = func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}
	}
	return h, nil
}

// hubToken finds the user's token where Hugging Face's own programs do.
func hubToken() string {
	if token := os.Getenv("HF_TOKEN"); token != "" {
		return token
	}
	caches := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	home := cmp.Or(os.Getenv("HF_HOME"), filepath.Join(caches, "huggingface"))
	text, _ := os.ReadFile(cmp.Or(os.Getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")))
	return strings.TrimSpace(string(text))
}

// hubNamesMax is how many names a listing has at most: more come in pages.
const hubNamesMax = 1000

// list implements lister. It reads one page: a folder of sets has few names.
func (h *hub) list(ctx context.Context, folder string, _ func(int)) (files []Listed, err error) {
	var entries []struct {
		Type, Path, OID string
		Size            int64
	}
	if err := h.getJSON(ctx, h.tree.JoinPath((&url.URL{Path: folder}).EscapedPath()), &entries); err != nil {
		return nil, err
	}
	if len(entries) >= hubNamesMax {
		return nil, fmt.Errorf("%w: the folder has %d names or more, of which a listing shows the first: name the files",
			errors.ErrUnsupported, hubNamesMax)
	}
	for _, e := range entries {
		f := Listed{path.Base(e.Path), Object{e.Size, e.OID}}
		if e.Type == "directory" {
			f = Listed{Name: f.Name + "/"}
		}
		files = append(files, f)
	}
	return files, nil
}

// A gcsBucket is a prefix of a bucket of Google Cloud Storage, read by its XML interface, which is plain HTTP. Credentials come from the
// sources that Google's programs use. Without credentials requests are anonymous.
type gcsBucket struct {
	web
	lists *url.URL // the bucket in the JSON interface
	path  string

	once   sync.Once          // looks for credentials, with the first request
	tokens oauth2.TokenSource // nil: anonymous; written by once alone
}

// gcsEndpoint is Google's; tests replace it.
var gcsEndpoint = "https://storage.googleapis.com"

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_only"

// newGCSBucket takes gs://bucket[/prefix]. It makes no request: the first one looks for credentials.
func newGCSBucket(c *Client, u *url.URL) (objects, error) {
	host := cmp.Or(os.Getenv("STORAGE_EMULATOR_HOST"), gcsEndpoint) // Google's libraries read it too
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	endpoint, err := url.Parse(host)
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("STORAGE_EMULATOR_HOST is not a URL")
	}
	b := &gcsBucket{path: strings.Trim(u.Path, "/"), lists: endpoint.JoinPath("storage/v1/b", u.Host, "o")}
	b.web = web{client: c, base: endpoint.JoinPath(u.Host, b.path), authorize: b.authorizeRequest}
	return b, nil
}

// authorizeRequest adds a token, which is renewed before it expires. Requests that come while it is renewed wait for the same one.
func (b *gcsBucket) authorizeRequest(r *http.Request) error {
	b.once.Do(func() {
		if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
			return
		}
		if found, err := google.FindDefaultCredentials(b.client.Context, gcsScope); err == nil {
			b.tokens = found.TokenSource
		}
	})
	if b.tokens == nil {
		return nil
	}
	token, err := b.tokens.Token()
	if err != nil {
		refused, is := errors.AsType[*oauth2.RetrieveError](err)
		failed := &RemoteError{Err: fmt.Errorf("no token for Google Cloud Storage: %w", withoutURL(err))}
		if is && refused.Response.StatusCode < http.StatusInternalServerError {
			failed.Status, failed.refused = refused.Response.StatusCode, true
		}
		return failed
	}
	token.SetAuthHeader(r)
	return nil
}

// list implements lister.
func (b *gcsBucket) list(ctx context.Context, folder string, received func(int)) (files []Listed, err error) {
	prefix := strings.TrimPrefix(path.Join(b.path, folder)+"/", "/") // "" for the whole bucket
	for page := ""; ; {
		list := *b.lists
		fields := []string{"items(name,size,generation),prefixes,nextPageToken"}
		list.RawQuery = url.Values{"prefix": {prefix}, "delimiter": {"/"}, "fields": fields, "pageToken": {page}}.Encode()
		var answer struct {
			Items []struct {
				Name, Generation string
				Size             int64 `json:",string"`
			}
			Prefixes      []string
			NextPageToken string
		}
		if err := b.getJSON(ctx, &list, &answer); err != nil {
			return nil, err
		}
		received(stallBytes)
		for _, p := range answer.Prefixes {
			files = append(files, Listed{Name: strings.TrimPrefix(p, prefix)})
		}
		for _, item := range answer.Items {
			files = append(files, Listed{strings.TrimPrefix(item.Name, prefix), Object{item.Size, item.Generation}})
		}
		if page = answer.NextPageToken; page == "" {
			return files, nil
		}
	}
}
