package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
)

// A speaker says the same to whoever connects to its socket, whatever he says.
type speaker struct {
	socket string
	says   atomic.Pointer[[]byte]
}

func newSpeaker(f *testing.F) *speaker {
	f.Helper()
	dir := testenv.Must(os.MkdirTemp("", "imgfeed-"))(f) // a socket's path is short
	s := &speaker{socket: filepath.Join(dir, "s")}
	l := testenv.Must(net.Listen("unix", s.socket))(f)
	f.Cleanup(func() {
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
				conn.Write(*s.says.Load())
				conn.(*net.UnixConn).CloseWrite()
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return s
}

// Whatever another program answers on a server's socket or address, status and reload end, in text that does nothing to a terminal.
func FuzzAnswers(f *testing.F) {
	message := func(kind, text string) []byte {
		testenv.Require(f, json.Valid([]byte(text)), "%s is not JSON", text)
		return frame(kind, text)
	}
	st := status.Status{Damaged: []string{"a"}, Sessions: []status.Session{{Split: "train"}}, History: make([]status.Moment, 1)}
	members := `{"server":"imgfeed","pid":1,"sets":[{"split":"train","samples":3,"classes":1,"partitions":2,"here":[1],"encoding":{"name":"pixels"}}]}`
	hello := message("hello", members)
	f.Add(hello)
	f.Add(slices.Concat(hello, message("status", members)))
	f.Add(slices.Concat(hello, message("status", strings.ReplaceAll(members, "imgfeed", `img\u001b[2Jfeed`))))
	f.Add(slices.Concat(hello, message("reloaded", `{"changes":["a\u001b[2Jb","\u009bc"]}`)))
	f.Add(slices.Concat(hello, message("status", string(testenv.Must(json.Marshal(st))(f)))))
	f.Add(slices.Concat(hello, message("error", `{"kind":"bad_request","message":"\u001b"}`)))
	f.Add([]byte("\xff\xff\xff\xff{"))
	s := newSpeaker(f)
	f.Fuzz(func(t *testing.T, says []byte) {
		s.says.Store(&says)
		var out bytes.Buffer
		run := func(args ...string) {
			root := newRootCommand()
			root.SetOut(&out)
			root.SetArgs(args)
			cliutil.Report(&out, root, root.Execute())
		}
		run("status", "--timeout", "1m", "--socket", s.socket)
		run("status", "--json", "--timeout", "1m", s.socket)
		run("reload", "--socket", s.socket)
		i := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
		testenv.Check(t, i < 0, "%q", out.String()[max(0, i-20):min(i+20, out.Len())])
		testenv.Check(t, out.Len() <= 4096+16*len(says), "%d bytes are printed of %d", out.Len(), len(says))
	})
}
