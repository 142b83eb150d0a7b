package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/shard"
)

// batch asks for the pictures of a session's last batch.
func (ts *testServer) batch(session uint64, header ...string) (p batchPreview, code int) {
	ts.t.Helper()
	w := ts.get(fmt.Sprintf("/sessions/%d/batch.json", session), header...)
	if w.Code == 200 {
		testenv.OK(ts.t, json.Unmarshal(w.Body.Bytes(), &p))
	}
	return p, w.Code
}

// noBatch checks with which status a question for pictures is answered without any.
func (ts *testServer) noBatch(session uint64, want int, header ...string) {
	ts.t.Helper()
	_, code := ts.batch(session, header...)
	testenv.Equal(ts.t, code, want, "the answer for the pictures of session %d", session)
}

// pixelsOf decodes a picture.
func pixelsOf(t *testing.T, url string) (pix []byte, size image.Point) {
	t.Helper()
	_, text, _ := strings.Cut(url, ";base64,")
	data := testenv.Must(base64.StdEncoding.DecodeString(text))(t)
	img, _ := testenv.Must2(image.Decode(bytes.NewReader(data)))(t)
	size = img.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			r, g, b, _ := img.At(x, y).RGBA()
			pix = append(pix, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return pix, size
}

// TestBatchOnThePage compares the pictures of the last batch with what the client was sent, random draws, views and fields included.
func TestBatchOnThePage(t *testing.T) {
	dir := t.TempDir()
	writeClassSet(t, filepath.Join(dir, "train-shards"), "train", 20, 1, []string{"cat", "n02099601"}, everyField, everyValue)
	ts := startServer(t, dir, nil)
	c := ts.dial().hello().open(openRequest{
		BatchSize: 10, Slots: 1, Shuffle: true, Seed: new(int64), Fields: []string{"score", "caption", "mask", "box"},
		Transform: json.RawMessage(`{"views": [[{"op":"RandomCrop","size":[2,3],"padding":2},{"op":"RandomHorizontalFlip"}], {"repeat": 2, "ops": [{"op":"RandomCrop","size":4}]}]}`),
	})
	ts.noBatch(1, 404)
	b := c.begun(3)
	shown, _ := ts.batch(1)
	testenv.Require(t, shown.Epoch == 3 && shown.Batch == 0 && shown.Count == 10 && len(shown.Samples) == previewSamples, "%+v", shown)
	indices := view[int64](c.array(ring.Indices, b))
	for i, sample := range shown.Samples {
		if sample.Index != int(indices[i]) || int64(sample.Label) != indices[i]%2 || sample.Class == "" || sample.Key == "" || sample.Bad != nil ||
			sample.Width != 8 || sample.Height != 6 || len(sample.Views) != 3 || len(sample.Fields) != 4 {
			t.Fatalf("position %d: %+v, the client has index %d", i, sample, indices[i])
		}
		class := [][2]string{{"cat", ""}, {"n02099601", "golden retriever"}}[sample.Label]
		testenv.Equal(t, [2]string{sample.Class, sample.Words}, class, "position %d: the class of label %d, and its words", i, sample.Label)
		got, size := pixelsOf(t, sample.Original.Picture)
		testenv.Equal(t, size, image.Pt(8, 6), "position %d: the original's size", i)
		testenv.DeepEqual(t, got, bytes.Repeat([]byte{byte(10 * sample.Label), byte(sample.Index), 7}, 48), "position %d: the original", i)
		for v, bytesEach := range []int{18, 48, 48} {
			got, _ := pixelsOf(t, sample.Views[v].Picture)
			testenv.DeepEqual(t, got, c.array(ring.Images, b, fmt.Sprint(v))[bytesEach*i:][:bytesEach], "position %d, view %d", i, v)
		}
		n := float32(indices[i])
		want := fmt.Sprint([]previewField{
			{"score", fmt.Sprint(n / 4)}, {"caption", strings.Repeat("x", int(indices[i])%5)}, {"mask", "1 byte"}, {"box", fmt.Sprintf("[%v,-1,0.5,2]", n)},
		})
		testenv.Check(t, fmt.Sprint(sample.Fields) == want, "position %d: fields %v, want %s", i, sample.Fields, want)
	}
	ts.noBatch(99, 404)
}

// TestBadSamplesOnThePage marks what is blank and what replaces another sample.
func TestBadSamplesOnThePage(t *testing.T) {
	dir := oneSet(t, 20, 1)
	damage(t, filepath.Join(dir, "train-shards"), 3)
	ts := startServer(t, dir, nil)
	for _, onError := range []string{onErrorBlank, onErrorSubstitute} {
		c := ts.dial().hello().open(openRequest{BatchSize: 6, OnError: onError, Slots: 1})
		c.begun(0)
		shown, code := ts.batch(c.opened.Session)
		testenv.Require(t, code == 200 && len(shown.Samples) == 6, "%d %+v", code, shown)
		for i, s := range shown.Samples {
			testenv.Check(t, (s.Bad != nil) == (i == 3) && s.Error == "", "%s, position %d: %+v", onError, i, s)
		}
		s := shown.Samples[3]
		blank := onError == onErrorBlank
		if s.Bad.Index != 3 || s.Bad.Key == "" || !strings.Contains(s.Bad.Error, "CRC-32C") || (s.Bad.By == nil) != blank || (len(s.Views) == 0) != blank ||
			blank && s.Label != loader.BlankLabel || !blank && (s.Index == 3 || s.Index%2 != 1 || s.Class == "") {
			t.Errorf("%s: %+v, %+v", onError, s, s.Bad)
		}
	}
}

// mayMake lets the pictures of a session be made again at once.
func (s *session) mayMake() {
	s.gallery.mu.Lock()
	defer s.gallery.mu.Unlock()
	s.gallery.next = time.Time{}
}

// TestPicturesAreMadeRarely asks again and again: pictures are made for the first one who looks, kept beyond their epoch, and made anew
// only after a long time.
func TestPicturesAreMadeRarely(t *testing.T) {
	ts := startServer(t, oneSet(t, 50, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 1})
	m := c.begun(0)
	session := ts.openSessions()[0]
	begun := time.Now()
	first, _ := ts.batch(1)
	took, pause := time.Since(begun), session.gallery.next.Sub(begun)
	longest := took + time.Duration(float64(took)/galleryShare)
	testenv.Check(t, pause > 0 && pause <= longest, "pictures took at most %v, and are made again %v after the first request", took, pause)
	session.gallery.next = time.Now().Add(time.Minute)
	c.send(releaseRequest{Slot: *m.Slot})
	expect[batchMessage](c)
	again, _ := ts.batch(1)
	testenv.Check(t, again.Batch == first.Batch && again.Time == first.Time, "made again: %+v", again)
	etag := ts.get("/sessions/1/batch.json").Header().Get("ETag")
	ts.noBatch(1, 304, "If-None-Match", etag)
	session.mayMake()
	newer, code := ts.batch(1, "If-None-Match", etag)
	testenv.Check(t, newer.Batch == 1 && code == 200, "after that time: %d %+v", code, newer)
	c.send(stopRequest{})
	testenv.Until(t, func() bool { return !session.snapshot.Load().sends })
	session.mayMake()
	kept, _ := ts.batch(1)
	testenv.Equal(t, kept.Batch, 1, "the batch that is kept after the epoch")
}

// TestPicturesAreFew bounds the pictures of a sample with many views.
func TestPicturesAreFew(t *testing.T) {
	ts := startServer(t, oneSet(t, 20, 1), nil)
	for views, want := range map[int]int{1: previewSamples, 7: 6, 64: 1} {
		c := ts.dial().hello().open(openRequest{BatchSize: 10, Slots: 1, Transform: json.RawMessage(fmt.Sprintf(`{"views":[{"repeat":%d,"ops":[{"op":"RandomCrop","size":4}]}]}`, views))})
		c.begun(0)
		shown, code := ts.batch(c.opened.Session)
		testenv.Equal(t, code, 200, "%d views: the status", views)
		testenv.Equal(t, len(shown.Samples), want, "%d views: samples", views)
		testenv.Equal(t, len(shown.Samples[0].Views), views, "views of a sample")
	}
}

func TestShowValue(t *testing.T) {
	for _, tt := range []struct {
		field shard.Field
		value []byte
		want  string
	}{
		{shard.Field{Type: shard.Int64}, shard.AppendInts(nil, -7), "-7"},
		{shard.Field{Type: shard.Float32, Size: 2}, shard.AppendFloats(nil, 1, 0.5), "[1,0.5]"},
		{shard.Field{Type: shard.Text}, []byte("<b>é"), "<b>é"},
		{shard.Field{Type: shard.JSON}, []byte(`{"a": [1, 2]}`), `{"a":[1,2]}`},
		{shard.Field{Type: shard.Bytes}, make([]byte, 12), "12 bytes"},
		{shard.Field{Type: shard.Text}, []byte(strings.Repeat("a", 116) + strings.Repeat("é", 9)), strings.Repeat("a", 116) + "…"},
	} {
		testenv.Equal(t, showValue(tt.field, tt.value), tt.want, "%v", tt.field)
	}
}
