package server

import (
	"bytes"
	"context"
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
	"github.com/imgfeed/imgfeed/shard"
)

// How much of a batch the page shows, and how much time that may take.
const (
	// previewSamples is how many samples are shown at most, previewPictures how many pictures of them, originals included; a
	// sample with all of its views is shown whatever their number.
	previewSamples  = 8
	previewPictures = 48
	// previewSide is the longer side of a picture at most, in pixels.
	previewSide = 256
	// previewValueMax is how much of a field's value is shown, in bytes.
	previewValueMax = 120
	// galleryShare is the share of one core that pictures take in the long run: after those that took 50 ms no others are made for 20 s.
	galleryShare = 0.0025
	// galleryAdvance is the time that pictures of sessions which nobody has looked at before may take in advance.
	galleryAdvance = 2 * time.Second
	// galleryPatience is how long each sample waits for a decoding thread without work, before it is made all the same.
	galleryPatience = 250 * time.Millisecond
	// galleryMax is how many sessions' pictures are kept.
	galleryMax = 8
)

// A gallery makes and keeps the pictures of the sessions' last batches, once for all who look, when somebody does. It has its turn
// behind serving, and a budget.
type gallery struct {
	making sync.Mutex // one batch is made at a time

	mu    sync.Mutex
	shown []*batchPreview // the latest request comes last
	paid  time.Time       // time from which the pictures so far are within galleryShare
}

// A batchPreview is some samples of a session's last batch, as batch.json describes them.
type batchPreview struct {
	Epoch   int             `json:"epoch"`
	Batch   int             `json:"batch"`
	Count   int             `json:"count"` // samples of the batch
	Time    float64         `json:"time"`  // time of the pictures
	Samples []previewSample `json:"samples"`

	session, generation uint64
	body                []byte // all of it, as JSON
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
	Original *previewPicture  `json:"original,omitempty"` // null where it is too large to be decoded for looking at
	Views    []previewPicture `json:"views"`
	Fields   []previewField   `json:"fields,omitempty"`
	// Bad is the sample that could not be served: this one stands in its place, or, with Blank, zeros do.
	Bad   *previewBad `json:"bad,omitempty"`
	Error string      `json:"error,omitempty"` // why there are no pictures
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

type previewBad struct {
	Index int    `json:"index"`
	Key   string `json:"key"`
	Blank bool   `json:"blank"`
	Error string `json:"error"`
}

// serveBatch shows the last batch that a session was sent.
func (s *Server) serveBatch(w http.ResponseWriter, r *http.Request) {
	sessions := s.openSessions()
	i := slices.IndexFunc(sessions, func(sess *session) bool { return strconv.FormatUint(sess.connection.id, 10) == r.PathValue("session") })
	if i < 0 {
		http.Error(w, "there is no such session any more", http.StatusNotFound)
		return
	}
	p, wait, err := s.gallery.look(r.Context(), sessions[i])
	switch {
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		http.Error(w, fmt.Sprintf("so many sessions were looked at that pictures of another one are made in %v only",
			wait.Round(time.Second)), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache") // a browser with this batch does not get it again
	w.Header().Set("ETag", fmt.Sprintf(`"%d.%d.%d.%d"`, s.started.UnixNano(), p.session, p.generation, p.Batch))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.body))
}

// look returns the pictures of a session's last batch, or those of an earlier one while the time for pictures is not paid for. A wait
// says that even the first ones of a session must wait so long.
func (g *gallery) look(ctx context.Context, s *session) (p *batchPreview, wait time.Duration, err error) {
	last, _ := g.kept(s)
	if last != nil && !g.making.TryLock() {
		return last, 0, nil // somebody else has newer ones made
	} else if last == nil {
		g.making.Lock()
	}
	defer g.making.Unlock()
	last, owed := g.kept(s) // perhaps by now
	stream, set, generation := s.lookInto()
	if stream == nil {
		if last != nil {
			return last, 0, nil
		}
		return nil, 0, badRequest("no epoch is running")
	}
	defer s.letGo(set)
	previewer := stream.Previewer()
	switch {
	case previewer == nil && last != nil, last != nil && owed > 0:
		return last, 0, nil
	case previewer == nil:
		return nil, 0, badRequest("the epoch's first batch is not sent yet")
	case last != nil && last.generation == generation && last.Batch == previewer.Batch():
		return last, 0, nil
	}
	if advance := time.Duration(float64(galleryAdvance) / galleryShare); owed > advance {
		return nil, owed - advance, nil
	}
	p = &batchPreview{
		Epoch: stream.Plan().Config().Epoch, Batch: previewer.Batch(), Count: previewer.Len(), Time: s.server.moment(time.Now()), Samples: []previewSample{},
		session: s.connection.id, generation: generation,
	}
	if err := g.fill(ctx, s, set, p, previewer); err != nil {
		return nil, 0, err
	}
	g.keep(p)
	return p, 0, nil
}

// fill makes the samples, each once a decoding thread has nothing to do.
func (g *gallery) fill(ctx context.Context, s *session, set *openSet, p *batchPreview, from *loader.Previewer) error {
	_, views, _ := s.form()
	for i := range max(1, min(previewSamples, previewPictures/(1+views), from.Len())) {
		if err := s.server.pool.AwaitIdle(ctx, galleryPatience); err != nil {
			return err
		}
		started := time.Now()
		sample, err := s.describe(set, from.Sample(i, previewSide))
		g.spend(time.Since(started))
		if err != nil {
			return err
		}
		p.Samples = append(p.Samples, sample)
	}
	started := time.Now()
	var err error
	p.body, err = json.Marshal(p)
	g.spend(time.Since(started))
	return err
}

// kept returns a session's pictures, nil if there are none, and how long it takes until the time for all pictures is paid for.
func (g *gallery) kept(s *session) (last *batchPreview, owed time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.IndexFunc(g.shown, func(p *batchPreview) bool { return p.session == s.connection.id }); i >= 0 {
		last = g.shown[i]
		g.shown = append(slices.Delete(g.shown, i, i+1), last)
	}
	return last, time.Until(g.paid)
}

// spend notes what pictures have taken.
func (g *gallery) spend(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.paid.Before(now) {
		g.paid = now
	}
	g.paid = g.paid.Add(time.Duration(float64(took) / galleryShare))
}

// keep puts pictures in the place of the session's older ones.
func (g *gallery) keep(p *batchPreview) {
	g.forget(p.session)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown = appendBounded(g.shown, p, galleryMax)
}

// forget drops a session's pictures.
func (g *gallery) forget(session uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown = slices.DeleteFunc(g.shown, func(p *batchPreview) bool { return p.session == session })
}

// lookInto returns the running epoch's stream, its set and its generation; nil if no epoch runs. The set stays open, whatever
// becomes of the epoch, until it is let go.
func (s *session) lookInto() (stream *loader.Stream, set *openSet, generation uint64) {
	s.lookMu.Lock()
	defer s.lookMu.Unlock()
	if stream = s.stream.Load(); stream == nil || !s.set.hold() {
		return nil, nil, 0
	}
	return stream, s.set, s.generation.Load()
}

// forgetStream ends what others may begin to do with the running epoch's stream: after it, its set may be another one.
func (s *session) forgetStream() {
	s.lookMu.Lock()
	defer s.lookMu.Unlock()
	s.stream.Store(nil)
}

// describe encodes a sample's pictures.
func (s *session) describe(set *openSet, shown loader.Preview) (d previewSample, err error) {
	d = previewSample{Index: shown.Index, Key: shown.Key, Label: shown.Label, Width: shown.Stored.X, Height: shown.Stored.Y,
		Views: []previewPicture{}}
	if classes := set.Manifest().Classes; shown.Label >= 0 && int(shown.Label) < len(classes) {
		d.Class = classes[shown.Label]
		d.Words = wordnet.Words(d.Class)
	}
	if shown.Bad != nil {
		d.Bad = &previewBad{Index: shown.Bad.Index, Key: shown.Bad.Key, Blank: shown.Bad.By < 0, Error: shown.Bad.Err.Error()}
	}
	if shown.Err != nil {
		d.Error = shown.Err.Error()
	}
	if shown.Original.Pix != nil {
		picture, err := showPicture(shown.Original)
		if err != nil {
			return d, err
		}
		d.Original = &picture
	}
	for _, view := range shown.Views {
		picture, err := showPicture(view)
		if err != nil {
			return d, err
		}
		d.Views = append(d.Views, picture)
	}
	for k, value := range shown.Fields {
		d.Fields = append(d.Fields, previewField{s.fields.Field(k).Name, showValue(s.fields.Field(k), value)})
	}
	return d, nil
}

func showPicture(p loader.Picture) (previewPicture, error) {
	t, err := thumbnail.New(p.Pix, p.Width, p.Height, previewSide)
	if err != nil {
		return previewPicture{}, err
	}
	return previewPicture{p.Width, p.Height, t.URL()}, nil
}

// showValue writes a field's value in a few words.
func showValue(f shard.Field, value []byte) string {
	switch {
	case f.Type == shard.Bytes:
		return bytesize.Counted(len(value), "byte", "bytes")
	case f.Type == shard.Text:
		return shorten(string(value))
	}
	return shorten(string(f.JSON(value)))
}

func shorten(text string) string {
	if len(text) <= previewValueMax {
		return text
	}
	return strings.ToValidUTF8(text[:previewValueMax-3], "") + "…"
}
