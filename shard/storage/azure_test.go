package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAzure reads and lists a container by a key, which no error shows.
func TestAzure(t *testing.T) {
	within(t, 20*time.Second)
	const secret = "c2VjcmV0"
	data := numbered(50_000)
	faults := []int{503, 500}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-ms-request-id", "id-7")
		query := r.URL.Query()
		switch {
		case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey me:"):
			http.Error(w, "", http.StatusForbidden)
		case query.Get("comp") == "list" && query.Get("marker") == "":
			fmt.Fprintf(w, `<EnumerationResults><Blobs><BlobPrefix><Name>%s</Name></BlobPrefix></Blobs><NextMarker>2</NextMarker></EnumerationResults>`, query.Get("prefix")+"rank-0000/")
		case query.Get("comp") == "list":
			fmt.Fprintf(w, `<EnumerationResults><Blobs><Blob><Name>%[1]s</Name></Blob><Blob><Name>%[1]smanifest.json</Name></Blob></Blobs></EnumerationResults>`, query.Get("prefix"))
		case r.URL.Path != "/me/sets/train/a":
			w.Header().Set("x-ms-error-code", "BlobNotFound")
			http.Error(w, "", http.StatusNotFound)
		case len(faults) > 0:
			http.Error(w, "", faults[0])
			faults = faults[1:]
		default:
			if text := r.Header.Get("x-ms-range"); text != "" {
				r.Header.Set("Range", text)
			}
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}
	}))
	defer server.Close()
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=me;AccountKey="+secret+";BlobEndpoint="+server.URL+"/me")
	at, err := At("az://me/sets/train")
	if err != nil {
		t.Fatal(err)
	}
	names, err := at.Names("")
	if want := []string{"rank-0000/", "manifest.json"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
	if got, err := at.ReadFile("a", 1<<20, nil); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	pinned, err := at.Stat("a")
	if want := (Object{Bytes: 50_000, Version: `"1"`}); err != nil || pinned != want {
		t.Errorf("%+v, %v", pinned, err)
	}
	f, err := at.OpenObject("a", pinned)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1000)
	if _, err := f.ReadAt(got, 49_000); err != nil || !bytes.Equal(got, data[49_000:]) {
		t.Error(err)
	}
	if f, err = at.OpenObject("a", Object{Bytes: 50_000, Version: `"0"`}); err == nil {
		_, err = f.ReadAt(got, 0)
	}
	if !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), "request id-7") {
		t.Errorf("another version: %v", err)
	}
	if _, err := at.ReadFile("b", 10, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "az://me/sets/train/b: status 404 Not Found BlobNotFound") {
		t.Error(err)
	}
	if root, name := Root("az://me/sets/train/x"); root != "az://me/sets" || name != "train/x" {
		t.Error(root, name)
	}
	if at, err = At("az://other/sets"); err == nil {
		_, err = at.ReadFile("a", 10, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "is of another account than other") {
		t.Error(err)
	}
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey="+secret)
	if at, err = At("az://me/sets"); err == nil {
		_, err = at.ReadFile("a", 10, nil)
	}
	if failed, ok := errors.AsType[*RemoteError](err); !ok || failed.Tries != 1 || strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
	if _, err := At("az://me"); err == nil || !strings.Contains(err.Error(), "want az://account/container") {
		t.Error(err)
	}
}
