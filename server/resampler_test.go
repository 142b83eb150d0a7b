package server

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
)

// TestResamplerOfSessions opens sessions that name a resampler and such that leave it to the server, on a tall image.
func TestResamplerOfSessions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	want := writeTallSet(t, dir)
	tall := json.RawMessage(`[{"op":"Resize","size":[40,32]}]`)
	own := json.RawMessage(`[{"op":"Resize","size":[40,32],"resampler":"pillow-12"}]`)
	for _, server := range []resample.Algorithm{resample.Pillow13, resample.Pillow12} {
		ts := startServer(t, dir, func(c *Config) { c.Resampler = server })
		for _, tt := range []struct {
			transform json.RawMessage
			resampler string
			want      resample.Algorithm
		}{
			{tall, "", server}, {tall, "pillow-12", resample.Pillow12}, {tall, "pillow-13", resample.Pillow13}, {own, "pillow-13", resample.Pillow12},
		} {
			c := ts.dial().hello()
			c.send(openRequest{Transform: tt.transform, BatchSize: 1, Transport: transportSocket, Resampler: tt.resampler})
			if m, ok := c.receive().(openedReply); !ok || !slices.Equal(m.Arrays[0].Shape, []int{40, 32, 3}) {
				t.Fatalf("%+v", m)
			}
			c.send(startRequest{})
			if m, ok := c.receive().(startedReply); !ok {
				t.Fatalf("%+v", m)
			}
			m := c.receive().(batchMessage)
			if got := c.raw(m.Bytes)[:40*32*3]; !bytes.Equal(got, want[tt.want]) {
				t.Errorf("server's %v, session's %q, %s: not the pixels of %v", server, tt.resampler, tt.transform, tt.want)
			}
			c.close()
		}
		c := ts.dial().hello()
		c.send(openRequest{Transform: tall, BatchSize: 1, Resampler: "rez"})
		if m, ok := c.receive().(errorMessage); !ok || m.ErrKind != kindBadRequest || !strings.Contains(m.Message, "pillow-13, pillow-12") {
			t.Errorf("%+v", m)
		}
		c.close()
		ts.stop()
	}
}

// writeTallSet writes a set of one image of 36 × 200 pixels, and returns what each resampler makes of it as 32 × 40.
func writeTallSet(t *testing.T, dir string) map[resample.Algorithm][]byte {
	t.Helper()
	const w, h = 36, 200
	rng := rand.New(rand.NewPCG(1, 2))
	img, src := image.NewNRGBA(image.Rect(0, 0, w, h)), make([]byte, 0, 3*w*h)
	for i := range w * h {
		c := color.NRGBA{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), 255}
		img.SetNRGBA(i%w, i/w, c)
		src = append(src, c.R, c.G, c.B)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	set, err := shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: []string{"a"}})
	if err == nil {
		err = set.Append(shard.Sample{Key: "a/1.png", Width: w, Height: h, Format: imagefile.PNG, Image: file.Bytes()})
	}
	if err == nil {
		_, err = set.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	made := map[resample.Algorithm][]byte{}
	for _, a := range []resample.Algorithm{resample.Pillow13, resample.Pillow12} {
		made[a] = make([]byte, 40*32*3)
		dst := resample.Output{Pix: made[a], Width: 32, Height: 40}
		if err := resample.New(kernel.Generic).Resize(dst, src, 3*w, image.Rect(0, 0, w, h), w, h, 32, 40, image.Rect(0, 0, 32, 40), resample.Bilinear, a); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(made[resample.Pillow13], made[resample.Pillow12]) {
		t.Fatal("the image does not tell the resamplers apart")
	}
	return made
}
