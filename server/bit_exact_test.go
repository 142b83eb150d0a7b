package server

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/transform"
)

// pixelsSet repacks a set of writeSet as pixels whose shorter side is 5.
func pixelsSet(t *testing.T, samples int) string {
	t.Helper()
	original := filepath.Join(t.TempDir(), "set")
	writeSet(t, original, "train", samples, 2)
	set := testenv.Opened(shard.OpenSet(original))(t)
	encoder := testenv.Must(pixelsencoding.New(pixelcodec.Params{}, pixelsencoding.Resize{Height: 5}))(t)
	dir := filepath.Join(t.TempDir(), "pixels")
	testenv.Must(pack.Repack(t.Context(), set, dir, pack.Options{Partitions: 2, Encoding: encoder}))(t)
	return dir
}

// TestNotBitExactSessions checks that a transform that stored pixels don't serve exactly is served with a note, or refused.
func TestNotBitExactSessions(t *testing.T) {
	dir := pixelsSet(t, 8)
	exact := json.RawMessage(`[{"op":"Resize","size":5},{"op":"CenterCrop","size":4}]`)
	inexact := json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`)
	pixel := json.RawMessage(`[{"op":"CenterCrop","size":1}]`) // of a client that asks for whole samples
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
			{pixel, "", true, true, "stored with Resize(5, bilinear)"},
			{pixel, "", false, strict, map[bool]string{true: "CenterCrop"}[strict]},
		} {
			c := ts.dial().hello()
			c.send(openRequest{Transform: tt.transform, BatchSize: 2, Transport: transportSocket, Resampler: tt.resampler, BitExact: tt.ask})
			if tt.refused {
				c.refused(kindBadRequest, tt.word)
			} else if m := expect[openedReply](c); (len(m.Notes) == 1) != (tt.word != "") || !strings.Contains(strings.Join(m.Notes, ""), tt.word) {
				t.Errorf("strict %v, %+v: opened with notes %q", strict, tt, m.Notes)
			}
			c.close()
		}
		ts.checkIdle()
		ts.stop()
	}
}

// TestResamplerOfSessions names a resampler in the operation, in the session and in the server: the first that is named resizes a tall
// image.
func TestResamplerOfSessions(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 36, 200))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	var file bytes.Buffer
	testenv.OK(t, png.Encode(&file, img))
	dir := filepath.Join(t.TempDir(), "set")
	set := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: []string{"a"}}))(t)
	testenv.OK(t, set.Append(shard.Sample{Key: "a/1.png", Width: 36, Height: 200, Format: imagefile.PNG, Image: file.Bytes()}))
	testenv.Must(set.Commit())(t)
	bare := `[{"op":"Resize","size":[40,32]}]`
	newer, older := strings.Replace(bare, "]}", `],"resampler":"pillow-13"}`, 1), strings.Replace(bare, "]}", `],"resampler":"pillow-12"}`, 1)
	for _, server := range []transform.Resampler{transform.Pillow13, transform.Pillow12} {
		ts := startServer(t, dir, func(c *Config) { c.Resampler = server })
		digest := func(operations, resampler string) [32]byte {
			return ts.dial().hello().open(openRequest{Transform: json.RawMessage(operations), BatchSize: 1, Resampler: resampler}).digest(0, nil)
		}
		want := map[transform.Resampler][32]byte{transform.Pillow13: digest(newer, ""), transform.Pillow12: digest(older, "pillow-13")}
		testenv.Require(t, want[transform.Pillow13] != want[transform.Pillow12], "the image does not tell the resamplers apart")
		for resampler, named := range map[string]transform.Resampler{
			"": server, "pillow-12": transform.Pillow12, "pillow-13": transform.Pillow13,
		} {
			testenv.Check(t, digest(bare, resampler) == want[named], "server's %v: other pixels in a session of resampler %q", server, resampler)
		}
		c := ts.dial().hello()
		c.refuses(openRequest{Transform: json.RawMessage(bare), BatchSize: 1, Resampler: "rez"}, kindBadRequest, "pillow-13, pillow-12")
	}
}
