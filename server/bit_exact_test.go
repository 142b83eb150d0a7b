package server

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/shard"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/pack"
)

// pixelsSet repacks the set of oneSet as pixels whose shorter side is 5.
func pixelsSet(t *testing.T) string {
	t.Helper()
	original := filepath.Join(t.TempDir(), "set")
	writeSet(t, original, "train", 8, 2)
	set, err := shard.OpenSet(original)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	encoder, err := pixelsencoding.New(pixelcodec.Params{}, pixelsencoding.Resize{Height: 5})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pixels")
	if _, err := pack.Repack(t.Context(), set, dir, pack.Options{Partitions: 2, Encoding: encoder}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNotBitExactSessions checks that a transform that stored pixels don't serve exactly is served with a note, or refused.
func TestNotBitExactSessions(t *testing.T) {
	dir := pixelsSet(t)
	exact := json.RawMessage(`[{"op":"Resize","size":5},{"op":"CenterCrop","size":4}]`)
	inexact := json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`)
	for _, strict := range []bool{false, true} {
		ts := startServer(t, dir, func(c *Config) { c.BitExact = strict })
		for _, tt := range []struct {
			transform json.RawMessage
			resampler string
			ask       bool
			refused   bool
			word      string // in the note or the refusal, "" if there is none
		}{
			{exact, "", false, false, ""},
			{exact, "pillow-13", true, false, ""},
			{exact, "pillow-12", false, strict, "stored with Resize(5, bilinear) by the resampler pillow-13"},
			{exact, "pillow-12", true, true, "ask for that"},
			{inexact, "", false, strict, "RandomResizedCrop"},
			{inexact, "", true, true, "stored with Resize(5, bilinear)"},
		} {
			c := ts.dial().hello()
			c.send(openRequest{Transform: tt.transform, BatchSize: 2, Transport: transportSocket, Resampler: tt.resampler, BitExact: tt.ask})
			switch m := c.receive().(type) {
			case openedReply:
				if tt.refused || (len(m.Notes) == 1) != (tt.word != "") || tt.word != "" && !strings.Contains(m.Notes[0], tt.word) {
					t.Errorf("strict %v, %+v: opened with notes %q", strict, tt, m.Notes)
				}
			case errorMessage:
				if !tt.refused || m.ErrKind != kindBadRequest || !strings.Contains(m.Message, tt.word) {
					t.Errorf("strict %v, %+v: %+v", strict, tt, m)
				}
			default:
				t.Errorf("strict %v, %+v: %+v", strict, tt, m)
			}
			c.close()
		}
		ts.checkIdle()
		ts.stop()
	}
}
