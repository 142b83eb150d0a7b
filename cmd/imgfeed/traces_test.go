package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestServeSendsTraces has a client that is sent a sample which cannot be decoded, by a server that is told of a collector by its flag, and by
// the environment; and by one that is told to send none.
func TestServeSendsTraces(t *testing.T) {
	var mu sync.Mutex
	var got []string
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range data.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, span := range scope.Spans {
					got = append(got, span.Name)
				}
			}
		}
	}))
	defer collector.Close()
	inEnvironment := "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL
	for _, c := range []struct {
		args, env []string
		says      string // at the start
		want      []string
	}{
		{[]string{"--traces", collector.URL, "--traces-share", "1"}, nil, "traces of all batches to " + collector.URL, []string{"batch", "epoch", "queued", "ready", "send", "slot wait", "work"}},
		{[]string{"--traces-share", "0.0001"}, []string{inEnvironment}, "traces of 0.01 % of the batches to " + collector.URL, []string{"epoch"}},
		{[]string{"--traces", "none"}, []string{inEnvironment}, "", nil},
		{nil, []string{inEnvironment, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "only http/protobuf is spoken here", nil},
	} {
		got = nil
		path := socketPath(t)
		serve := imgfeed(append([]string{"serve", oneSet(t), "--socket", path}, c.args...)...)
		serve.Env = append(serve.Env, c.env...)
		var out bytes.Buffer
		serve.Stdout, serve.Stderr = &out, &out
		if err := serve.Start(); err != nil {
			t.Fatal(err)
		}
		hello(t, path)
		oneBlankBatch(t, path)
		serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("%v: %v, %s", c.args, err, &out)
		}
		if !strings.Contains(out.String(), c.says) || c.says == "" && strings.Contains(out.String(), "traces") {
			t.Errorf("%v: no %q in %s", c.args, c.says, &out)
		}
		mu.Lock()
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: got spans %q, want %q; %s", c.args, got, c.want, &out)
		}
		mu.Unlock()
	}
}

// TestServeRefusesBadTraces gives addresses and shares that are none.
func TestServeRefusesBadTraces(t *testing.T) {
	for _, args := range [][]string{{"--traces", "ftp://host"}, {"--traces", ""}, {"--traces-share", "0"}, {"--traces-share", "1.1"}, {"--traces-share", "NaN"}} {
		out, err := imgfeed(append([]string{"serve", t.TempDir()}, args...)...).CombinedOutput()
		if !strings.Contains(string(out), args[0]+" \""+args[1]+"\": want ") || err == nil || err.Error() != "exit status 2" {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}

// oneBlankBatch runs an epoch of a server with one sample, which it takes blank.
func oneBlankBatch(t *testing.T, path string) {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	next := func(want string) (m struct {
		Type  string
		Bytes int64
	}) {
		text, err := nextFrame(conn)
		if err != nil || json.Unmarshal(text, &m) != nil || m.Type != want {
			t.Fatalf("got %s, %v, want %s", text, err, want)
		}
		return m
	}
	for _, request := range []string{
		`{"type":"hello","version":1}`,
		`{"type":"open","split":"train","batch_size":1,"transform":[{"op":"CenterCrop","size":1}],"transport":"socket","on_error":"blank"}`,
		`{"type":"start","epoch":0}`,
	} {
		conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(request))), request...))
	}
	next("hello")
	next("opened")
	next("started")
	if _, err := io.CopyN(io.Discard, conn, next("batch").Bytes); err != nil {
		t.Fatal(err)
	}
	next("end")
}
