package storage

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestSignedRequests sends a query that signs requests with each, and shows it to nobody.
func TestSignedRequests(t *testing.T) {
	t.Setenv("IMGFEED_URL_QUERY", "?policy=all&signature=secret")
	within(t, time.Minute)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.WriteHeader(http.StatusForbidden)
	}))
	at := testenv.Must(At(server.URL + "/set"))(t)
	_, err := at.ReadFile("a", 10, nil)
	testenv.Check(t, slices.Equal(asked, []string{"/set/a?policy=all&signature=secret"}) && errors.Is(err, fs.ErrPermission),
		"requests %q, %v", asked, err)
	Default.Timeout = 200 * time.Millisecond
	server.Close()
	_, gone := at.ReadFile("a", 10, nil)
	testenv.Check(t, gone != nil && !strings.Contains(err.Error()+gone.Error()+at.String(), "secret"), "%v %v %v", err, gone, at)
}

// TestRedirects follows a redirect, and shows the other host no secret.
func TestRedirects(t *testing.T) {
	t.Setenv("IMGFEED_URL_QUERY", "signature=secret")
	within(t, time.Minute)
	var seen []http.Header
	s := newStore(t)
	s.files["elsewhere/a"], s.files["set/x%2e/a"] = []byte("here"), []byte("a name with a percent sign")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		testenv.Check(t, r.URL.RawQuery == "", "the other host is asked for %s", r.URL)
		s.ServeHTTP(w, r)
	}))
	defer other.Close()
	to := other.URL + "/elsewhere/a"
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testenv.Check(t, r.URL.RawQuery == "signature=secret", "asked for %s", r.URL)
		if strings.HasPrefix(r.URL.Path, "/set/x") {
			s.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}))
	defer first.Close()
	at := testenv.Must(At(first.URL + "/set"))(t)
	at.(*remote).objects.(*web).authorize = func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer secret")
		return nil
	}
	testenv.Equal(t, string(testenv.Must(at.ReadFile("a", 10, nil))(t)), "here", "what the other host gives")
	testenv.Check(t, len(seen) == 1 && !strings.Contains(fmt.Sprint(seen), "secret"), "the other host sees %v", seen)
	testenv.Must(at.ReadFile("x%2e/a", 100, nil))(t)
	for _, to = range []string{"https://host/%zz?signature=secret", "file:///etc/passwd?signature=secret", first.URL + "/set/again?signature=secret"} {
		_, err := at.ReadFile("a", 10, nil)
		failed := testenv.As[*RemoteError](t, err)
		testenv.Check(t, failed.Tries <= 1 && !strings.Contains(err.Error(), "secret") && errors.Is(err, errRedirect), "%s: %v", to, err)
	}
}

// TestHub finds a dataset's files at Hugging Face's addresses, with the token.
func TestHub(t *testing.T) {
	s := newStore(t)
	s.files["datasets/o/n/resolve/v2/sets/manifest.json"] = []byte("here")
	s.storages(t)
	at := testenv.Must(At("hf://datasets/o/n@v2/sets"))(t)
	s.fail(func(w http.ResponseWriter, r *http.Request) {
		testenv.Check(t, r.Header.Get("Authorization") == "Bearer token", "no token")
		w.WriteHeader(503)
	})
	testenv.Equal(t, string(testenv.Must(at.ReadFile("manifest.json", 10, nil))(t)), "here", "the file")
	s.fail(func(w http.ResponseWriter, r *http.Request) {
		testenv.Equal(t, r.URL.Path, "/api/datasets/o/n/tree/v2/sets", "path that is asked for")
		w.Write([]byte(`[{"type": "directory", "path": "sets/train"}, {"type": "file", "path": "sets/a", "size": 7, "oid": "ab"}]`))
	})
	lists(t, at, Listed{Name: "train/"}, Listed{"a", Object{7, "ab"}})
}

// lists checks what a storage lists.
func lists(t *testing.T, at Storage, want ...Listed) {
	t.Helper()
	testenv.DeepEqual(t, testenv.Must(at.(Lister).List(""))(t), want, "files")
}

// TestCloudStorage reads and lists a bucket of Google's, with a token of a service account and without.
func TestCloudStorage(t *testing.T) {
	s := newStore(t)
	s.files["bucket/sets/manifest.json"] = []byte("here")
	key := testenv.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	der := testenv.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	account := testenv.Must(json.Marshal(map[string]string{
		"type": "service_account", "client_email": "me@x", "token_uri": s.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}))(t)
	file := filepath.Join(t.TempDir(), "account.json")
	testenv.OK(t, os.WriteFile(file, account, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	for _, token := range []string{"Bearer t", ""} {
		t.Setenv("STORAGE_EMULATOR_HOST", "")
		if token == "" {
			t.Setenv("STORAGE_EMULATOR_HOST", s.Listener.Addr().String())
		}
		gcsEndpoint = s.URL
		at := testenv.Must(At("gs://bucket/sets"))(t)
		var answers []http.HandlerFunc
		if token != "" {
			answers = append(answers, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(`{"access_token": "t", "token_type": "Bearer", "expires_in": 3600}`))
			})
		}
		s.fail(append(answers, func(w http.ResponseWriter, r *http.Request) {
			testenv.Equal(t, r.Header.Get("Authorization"), token, "authorized by")
			w.WriteHeader(503)
		})...)
		testenv.Equal(t, string(testenv.Must(at.ReadFile("manifest.json", 10, nil))(t)), "here", "the file")
		answers = nil
		for page, text := range []string{`{"prefixes": ["sets/train/"], "nextPageToken": "two"}`, `{"items": [{"name": "sets/"}, {"name": "sets/a", "size": "7", "generation": "9"}]}`} {
			answers = append(answers, func(w http.ResponseWriter, r *http.Request) {
				if q := r.URL.Query(); r.URL.Path != "/storage/v1/b/bucket/o" || q.Get("prefix") != "sets/" || q.Get("pageToken") != []string{"", "two"}[page] {
					t.Error(r.URL)
				}
				w.Write([]byte(text))
			})
		}
		s.fail(answers...)
		lists(t, at, Listed{Name: "train/"}, Listed{"a", Object{7, "9"}})
	}
}
