package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// A cloudBucket is a prefix of a bucket of Google Cloud Storage, read by its XML interface, which is plain HTTP. Credentials come from the
// sources that Google's programs use. Without credentials requests are anonymous.
type cloudBucket struct {
	web
	lists *url.URL // the bucket in the JSON interface
	path  string

	once   sync.Once
	tokens oauth2.TokenSource // nil: anonymous
}

// cloudEndpoint is Google's; tests put another in its place.
var cloudEndpoint = "https://storage.googleapis.com"

const cloudScope = "https://www.googleapis.com/auth/devstorage.read_only"

func newCloudBucket(c *Client, u *url.URL) (objects, error) {
	host := cmp.Or(os.Getenv("STORAGE_EMULATOR_HOST"), cloudEndpoint) // Google's libraries read it too
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	endpoint, err := url.Parse(host)
	if err != nil || endpoint.Host == "" {
		return nil, errors.New("STORAGE_EMULATOR_HOST is no URL")
	}
	b := &cloudBucket{path: strings.Trim(u.Path, "/"), lists: endpoint.JoinPath("storage/v1/b", u.Host, "o")}
	b.web = web{client: c, base: endpoint.JoinPath(u.Host, b.path), authorize: b.authorizeRequest}
	return b, nil
}

// authorizeRequest adds a token, which is renewed before it expires.
func (b *cloudBucket) authorizeRequest(r *http.Request) error {
	b.once.Do(func() {
		if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
			return
		}
		if found, err := google.FindDefaultCredentials(b.client.Context, cloudScope); err == nil {
			b.tokens = found.TokenSource
		}
	})
	if b.tokens == nil {
		return nil
	}
	token, err := b.tokens.Token()
	if err != nil {
		return fmt.Errorf("no token for Google Cloud Storage: %w", withoutURL(err))
	}
	token.SetAuthHeader(r)
	return nil
}

// list implements lister.
func (b *cloudBucket) list(ctx context.Context, folder string, received func(int)) (names []string, err error) {
	prefix := path.Join(b.path, folder)
	if prefix != "" {
		prefix += "/"
	}
	for page := ""; ; {
		list := *b.lists
		fields := []string{"items/name,prefixes,nextPageToken"}
		list.RawQuery = url.Values{"prefix": {prefix}, "delimiter": {"/"}, "fields": fields, "pageToken": {page}}.Encode()
		var answer struct {
			Items         []struct{ Name string }
			Prefixes      []string
			NextPageToken string
		}
		if err := b.getJSON(ctx, &list, &answer); err != nil {
			return nil, err
		}
		received(stallBytes)
		for _, p := range answer.Prefixes {
			names = append(names, strings.TrimPrefix(p, prefix))
		}
		for _, item := range answer.Items {
			if name := strings.TrimPrefix(item.Name, prefix); name != "" {
				names = append(names, name)
			}
		}
		if page = answer.NextPageToken; page == "" {
			return names, nil
		}
	}
}
