package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/server"
)

// A speaker says the same to whoever connects, whatever he says, on a socket and by HTTP.
type speaker struct {
	socket, address string
	says            []byte
}

func newSpeaker(f *testing.F) *speaker {
	f.Helper()
	dir, err := os.MkdirTemp("", "imgfeed-") // a socket's path is short
	if err != nil {
		f.Fatal(err)
	}
	s := &speaker{socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		f.Fatal(err)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(s.says) }))
	s.address = pages.URL
	f.Cleanup(func() {
		pages.Close()
		l.Close()
		os.RemoveAll(dir)
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.Write(s.says)
				conn.(*net.UnixConn).CloseWrite()
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return s
}

// Whatever another program answers on a server's socket or address, status, reload and top end, in text that does nothing to a terminal.
func FuzzAnswers(f *testing.F) {
	frame := func(kind, text string) []byte {
		data, err := wire.AppendFrame(nil, textMessage(f, kind, text))
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	status, err := json.Marshal(server.Status{Damaged: []string{"a"}, Sessions: []server.SessionStatus{{Split: "train"}}, History: make([]server.Moment, 1)})
	if err != nil {
		f.Fatal(err)
	}
	members := `{"server":"imgfeed","pid":1,"sets":[{"split":"train","samples":3,"classes":1,"partitions":2,"here":[1],"encoding":{"name":"pixels"}}]}`
	hello := frame("hello", members)
	f.Add(hello, false)
	f.Add(frame("hello", strings.ReplaceAll(members, "imgfeed", `img\u001b[2Jfeed`)), false)
	f.Add(slices.Concat(hello, frame("reloaded", `{"changes":["a\u001b[2Jb"],"refused":["\u009bc"]}`)), false)
	f.Add(slices.Concat(hello, frame("status", string(status))), false)
	f.Add(slices.Concat(hello, frame("error", `{"kind":"bad_request","message":"\u001b"}`)), false)
	f.Add(status, true)
	f.Add([]byte("\xff\xff\xff\xff{"), false)
	s := newSpeaker(f)
	look := topFlags{once: true, timeout: time.Minute}
	f.Fuzz(func(t *testing.T, says []byte, page bool) {
		s.says = says
		var out bytes.Buffer
		if page {
			cliutil.Report(&out, newRootCommand(), look.run(t.Context(), &out, s.address))
		} else {
			cliutil.Report(&out, newRootCommand(), printStatus(&out, s.socket, time.Minute))
			cliutil.Report(&out, newRootCommand(), reload(&out, s.socket, time.Minute))
			cliutil.Report(&out, newRootCommand(), look.run(t.Context(), &out, s.socket))
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%q", out.String()[max(0, i-20):min(i+20, out.Len())])
		}
		if out.Len() > 4096+16*len(says) {
			t.Errorf("%d bytes are printed of %d", out.Len(), len(says))
		}
	})
}

// textMessage is a message of a kind with these members.
func textMessage(t testing.TB, kind, members string) wire.Message {
	t.Helper()
	if !json.Valid([]byte(members)) {
		t.Fatal(fmt.Errorf("%s is no JSON", members))
	}
	return text{kind, json.RawMessage(members)}
}
