package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	// previewSamples is how many samples are shown at most, previewPictures how many pictures of them, originals included; a
	// sample with all of its views is shown whatever their number.
	previewSamples  = 8
	previewPictures = 48
	// previewSide is the longer side of a picture at most, in pixels.
	previewSide = 256
	// previewValueMax is how much of a field's value is shown, in bytes.
	previewValueMax = 120
	// galleryShare is the share of one core that a session's pictures take: after some that took 50 ms none are made for 20 s.
	galleryShare = 0.0025
)

// A gallery keeps the pictures of a session's last batch for status pages. They are made when somebody looks, on the goroutine of the
// request, and never more often than galleryShare allows.
//
// mu guards the rest. It is held while pictures are made, so that who looks meanwhile waits and gets them too. The session and its epoch
// never take it. The bytes in json are replaced, and never changed.
type gallery struct {
	mu   sync.Mutex
	json []byte    // a batchPreview; nil before somebody looks
	made float64   // moment of the pictures
	next time.Time // earliest time of newer pictures
}

// A batchPreview is some samples of a session's last batch, as batch.json describes them.
type batchPreview struct {
	Epoch   int             `json:"epoch"`
	Batch   int             `json:"batch"`
	Count   int             `json:"count"` // samples of the batch
	Time    float64         `json:"time"`  // time of the pictures
	Samples []previewSample `json:"samples"`
}

// A previewSample is a sample as it was sent, its pictures as data URLs.
type previewSample struct {
	Index    int              `json:"index"`
	Key      string           `json:"key"`
	Label    int32            `json:"label"`
	Class    string           `json:"class"`
	Words    string           `json:"words,omitempty"` // WordNet's words for one of ILSVRC2012's wnids
	Width    int              `json:"width"`           // width of the stored image; 0 if nothing was read
	Height   int              `json:"height"`
	Original *previewPicture  `json:"original,omitempty"` // null if the image is too large to decode for a page
	Views    []previewPicture `json:"views"`
	Fields   []previewField   `json:"fields,omitempty"`
	// Bad is the sample that could not be served: this one replaces it, or, without By, zeros do.
	Bad   *status.BadSample `json:"bad,omitempty"`
	Error string            `json:"error,omitempty"` // why there are no pictures
}

type previewPicture struct {
	Width   int    `json:"width"` // width of the image; its picture may be smaller
	Height  int    `json:"height"`
	Picture string `json:"picture"`
}

type previewField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// serveBatch shows the last batch that a session was sent.
func (s *Server) serveBatch(w http.ResponseWriter, r *http.Request) {
	sessions := s.openSessions()
	i := slices.IndexFunc(sessions, func(sess *session) bool {
		return strconv.FormatUint(sess.connection.id, 10) == r.PathValue("session")
	})
	if i < 0 {
		http.Error(w, "the session has ended", http.StatusNotFound)
		return
	}
	pictures, made, err := sessions[i].gallery.look(sessions[i])
	if pictures == nil {
		http.Error(w, fmt.Sprint(err), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache") // a browser with these pictures does not get them again
	w.Header().Set("ETag", fmt.Sprintf(`"%d.%.3f"`, sessions[i].connection.id, made))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(pictures))
}

// look returns the pictures and their moment. They are newer ones if it is time for these; nil with an error if there are none.
func (g *gallery) look(s *session) (pictures []byte, made float64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().After(g.next) {
		err = g.make(s)
	}
	return g.json, g.made, err
}

// make makes pictures of the session's last batch, and holds the set open meanwhile. It makes the samples anew: the client may have given
// the batch's slot back, and workers may be filling it.
func (g *gallery) make(s *session) (err error) {
	now := s.snapshot.Load()
	if !now.sends || !now.set.acquire() { // the pictures are made whatever becomes of the epoch
		return badRequest("no epoch is running")
	}
	defer now.set.release()
	from := now.stream.Previewer()
	if from == nil {
		return badRequest("the epoch's first batch is not sent yet")
	}
	p := batchPreview{Epoch: now.stream.Plan().Config().Epoch, Batch: from.Batch(), Count: from.Len(), Time: s.server.moment(time.Now())}
	started := time.Now()
	defer func() { g.next = time.Now().Add(time.Duration(float64(time.Since(started)) / galleryShare)) }()
	for i := range max(1, min(previewSamples, previewPictures/(1+now.views), from.Len())) {
		p.Samples = append(p.Samples, now.describe(from.Sample(i, previewSide)))
	}
	g.json, err = json.Marshal(p)
	g.made = p.Time
	return err
}

// describe encodes a sample's pictures.
func (s *snapshot) describe(shown loader.Preview) previewSample {
	d := previewSample{Index: shown.Index, Key: shown.Key, Label: shown.Label, Width: shown.Stored.X, Height: shown.Stored.Y,
		Views: []previewPicture{}}
	if classes := s.set.Manifest().Classes; shown.Label >= 0 && int(shown.Label) < len(classes) {
		d.Class = classes[shown.Label]
		d.Words = wordnet.Words(d.Class)
	}
	if shown.Bad != nil {
		d.Bad = new(status.NewBadSample(*shown.Bad))
	}
	if shown.Err != nil {
		d.Error = shown.Err.Error()
	}
	if shown.Original.Pix != nil {
		d.Original = new(d.picture(shown.Original))
	}
	for _, view := range shown.Views {
		d.Views = append(d.Views, d.picture(view))
	}
	for k, value := range shown.Fields {
		d.Fields = append(d.Fields, previewField{s.fields.Field(k).Name, showValue(s.fields.Field(k), value)})
	}
	return d
}

// picture encodes a picture of the sample.
func (d *previewSample) picture(p loader.Picture) previewPicture {
	t, err := thumbnail.New(p.Pix, p.Width, p.Height, previewSide)
	if err != nil {
		d.Error = err.Error()
	}
	return previewPicture{p.Width, p.Height, t.URL}
}

// showValue writes a field's value in a few words.
func showValue(f shard.Field, value []byte) string {
	if f.Type == shard.Bytes {
		return bytesize.Counted(len(value), "byte", "bytes")
	}
	text := string(value)
	if f.Type != shard.Text {
		text = string(f.JSON(value))
	}
	if len(text) > previewValueMax {
		text = strings.ToValidUTF8(text[:previewValueMax-3], "") + "…"
	}
	return text
}
