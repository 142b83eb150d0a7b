package feeder

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
)

const (
	// A piece takes about pieceTime and twice the time of the smallest pieces: much longer than it costs to ask for one. It is short,
	// since the slots of its samples wait for it.
	pieceTime = 20 * time.Millisecond
	// After lateAfter a piece that a feeder has not made is made here. A trainer that waits for it waits a bit longer.
	lateAfter = 700 * time.Millisecond
	// A feeder that fails is dialled again after a pause, which grows up to redialMax. It is drawn from half to one and a half of that, so
	// that the servers of a feeder that comes back do not dial it all at once.
	redialMin, redialMax = 100 * time.Millisecond, 5 * time.Second
)

// A feeder is another machine that makes samples for this one.
//
// Each of its connections has a goroutine of its own, which dials, serves and dials again. The first connection learns from the feeder's
// greeting how many the feeder wants, and begins the others. stop ends all of them, and does not wait for that.
//
// mu guards what follows it. Nobody holds it while waiting for a network. It is taken last: a List takes it under its own lock.
type feeder struct {
	host    *Host
	address string
	stop    func()

	mu      sync.Mutex
	keeping int           // goroutines that keep a connection each; it only grows
	status  status.Feeder // everything except rates
}

// count adds to the feeder's counts.
func (f *feeder) count(connections int64, c status.FeederWork) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Connections += connections
	f.status.Add(c)
}

// keep keeps so many connections open, or more.
func (f *feeder) keep(ctx context.Context, connections int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; f.keeping < connections; f.keeping++ {
		f.host.Running.Go(func() { f.keepOne(ctx) })
	}
}

// keepOne keeps a connection open, until ctx ends or the pool is closed. Whatever goes wrong is reported, and tried again after a pause.
// What the connection has not made by then is left to the workers here.
func (f *feeder) keepOne(ctx context.Context) {
	pause := redialMin
	for ctx.Err() == nil {
		c, err := f.dial(ctx)
		if err == nil {
			closing := context.AfterFunc(ctx, func() { c.conn.Close() }) // this ends the wait
			f.count(1, status.FeederWork{})
			err = f.host.Pool.ServeRemote(ctx, c)
			f.count(-1, status.FeederWork{})
			closing()
			c.conn.Close()
			if c.fastest > 0 {
				pause = redialMin
			}
		}
		if ctx.Err() != nil || errors.Is(err, loader.ErrClosed) {
			return
		}
		f.report(err)
		select {
		case <-time.After(time.Duration((0.5 + rand.Float64()) * float64(pause))):
		case <-ctx.Done():
		}
		pause = min(2*pause, redialMax)
	}
}

// report notes a trouble, and logs it.
func (f *feeder) report(err error) {
	trouble := err.Error()
	if failed, is := errors.AsType[*net.OpError](err); is { // leave out the ports
		trouble = strings.Replace(trouble, failed.Error(), failed.Op+": "+failed.Err.Error(), 1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Trouble = fmt.Sprintf("%.300s", strings.ReplaceAll(termsafe.Message(trouble), "\n", "; "))
	f.host.Warn(f.host.Log, f.address+trouble, "feeder", "address", f.address, "err", trouble)
}

// dial connects to the feeder, which must serve what this server serves. It has HelloTimeout for all of it: connecting, TLS and the
// greeting.
func (f *feeder) dial(ctx context.Context) (c *link, err error) {
	soon, cancel := context.WithTimeout(ctx, HelloTimeout)
	defer cancel()
	conn, err := f.host.Access.dial(soon, f.address)
	if err != nil {
		return nil, greetingError(err)
	}
	defer context.AfterFunc(soon, func() { conn.Close() })()
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	c = newLink(f, conn)
	hello, err := wire.Ask[HelloReply](conn, c.frames, Requests, Replies, wire.Hello{Version: wire.Version})
	if refusal, refused := errors.AsType[wire.Refusal](err); refused {
		return nil, fmt.Errorf("the feeder refuses: %w", refusal)
	}
	if err != nil {
		return nil, greetingError(err)
	}
	if c.sets, err = f.common(hello); err != nil {
		return nil, err
	}
	f.keep(ctx, min(hello.Connections, connectionsMax))
	return c, nil
}

// greetingError adds a remedy to the error of a connection that did not come about.
func greetingError(err error) error {
	if failed, isOp := errors.AsType[*net.OpError](err); isOp && failed.Op == "dial" {
		return err
	}
	return fmt.Errorf("the feeder does not answer the greeting: %w; both sides need --tls, or neither, with certificates that the other's "+
		"ca.crt has signed, a feeder's with subjectAltName=DNS:%s", err, tlsName)
}

// common returns the sets that the feeder and the server both serve. Without any, the error says why.
func (f *feeder) common(hello HelloReply) ([]Set, error) {
	if name := f.host.Name; hello.Server != name {
		return nil, fmt.Errorf("the feeder runs %s, and the server %s: only the same version is guaranteed to make the same samples",
			hello.Server, name)
	}
	// One set in common is enough. Each of the others is a trouble to report, and the error if there is no common one.
	var common []Set
	var differ []error
	served, _ := f.host.Sets()
	for _, ours := range served {
		i := slices.IndexFunc(hello.Sets, func(s Set) bool { return s.Split == ours.Split })
		switch {
		case i < 0:
			differ = append(differ, fmt.Errorf("the feeder does not serve split %s", ours.Split))
		case hello.Sets[i] != ours:
			differ = append(differ, dataMismatch(hello.Sets[i], ours))
		default:
			common = append(common, ours)
		}
	}
	if len(common) == 0 {
		return nil, errors.Join(differ...)
	}
	for _, err := range differ {
		f.report(err)
	}
	return common, nil
}

// An Offer describes a stream to feeders. It is the stream's [loader.StreamConfig].Offer. It never changes, so links of all feeders use it
// at a time. The frame of its request is the same for all pieces, which lets a feeder see without parsing that it has the offer already.
type Offer struct {
	set         Set
	frame       []byte // frame of the Request
	sampleBytes int64
}

// NewOffer returns an [*Offer] of pieces with so many bytes a sample, or nil if the request is too long.
func NewOffer(r Request, sampleBytes int64) any {
	frame, err := Requests.AppendFrame(nil, r)
	if err != nil || len(frame) > wire.RequestBytesMax {
		return nil
	}
	return &Offer{r.Set, frame, sampleBytes}
}

// A link is a connection to a feeder, as a [loader.Remote]. One request is under way at a time: what is written and what is read always
// belong to the same piece. A link that has failed once is not used again, since nobody knows where in an answer it stands.
//
// The goroutine that serves the pool with it owns it. The scheduler calls Takes from others too, so sets never changes.
type link struct {
	feeder  *feeder
	conn    net.Conn
	in      *bufio.Reader
	frames  *wire.Reader
	sets    []Set
	out     []byte
	parts   [][]byte
	flags   [loader.PieceSamplesMax]byte
	samples float64       // samples of the next piece
	fastest time.Duration // time of the fastest piece lately; it ages, so that a slower network is noticed
}

func newLink(f *feeder, conn net.Conn) *link {
	c := &link{feeder: f, conn: conn, in: bufio.NewReader(conn), samples: 4}
	c.frames = wire.NewReader(c.in, wire.RequestBytesMax)
	return c
}

// Takes implements [loader.Remote].
func (c *link) Takes(stream any) bool {
	offer, ok := stream.(*Offer)
	return ok && slices.Contains(c.sets, offer.set)
}

// Samples implements [loader.Remote].
func (c *link) Samples() int { return int(c.samples) }

// Make implements [loader.Remote]. It reads into the slot only before it returns, so that workers may fill the same samples afterwards.
// After an error the connection is closed, as the rest of the answer may still come.
func (c *link) Make(p *loader.Piece, made []bool) error {
	offer := p.Offer.(*Offer)
	n := min(len(made), max(1, int(pieceBytesMax/offer.sampleBytes)))
	started := time.Now()
	c.conn.SetDeadline(started.Add(lateAfter))
	if err := c.exchange(offer, p, made[:n]); err != nil {
		c.conn.Close()
		c.feeder.count(0, status.FeederWork{Again: int64(n)})
		if failed, is := errors.AsType[net.Error](err); is && failed.Timeout() {
			c.feeder.count(0, status.FeederWork{Late: 1})
			return fmt.Errorf("no piece within %v: it is made here", lateAfter)
		}
		return err
	}
	// The next piece has so many samples that, at the rate of this one, it takes pieceTime and twice the time of the fastest piece. A
	// single fast or slow piece changes the number by half at most: it is the mean of before and wanted, and wanted at most doubles it.
	took := max(1, time.Since(started))
	if c.fastest += c.fastest / 64; c.fastest == 0 || took < c.fastest {
		c.fastest = took
	}
	wanted := float64(n) * float64(pieceTime+2*c.fastest) / float64(took)
	c.samples = min(max(1, (c.samples+min(wanted, 2*c.samples))/2), loader.PieceSamplesMax)
	return nil
}

// exchange asks for a piece, and reads it into its slot: the frame of a Made, a flag for each sample, and then the parts of the slot.
// Samples that are flagged as not made have bytes too, which the workers here overwrite. Only a whole answer counts.
func (c *link) exchange(offer *Offer, p *loader.Piece, made []bool) error {
	c.out = AppendNumbers(append(c.out[:0], offer.frame...), p, len(made))
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	text, err := c.frames.Next()
	if err != nil {
		return err
	}
	// Every Made has the same bytes, so nothing is decoded or allocated for it.
	if !bytes.Equal(text, MadeFrame[4:]) {
		_, err := wire.Answer[Made](Replies, text)
		return errors.Join(errors.New("the feeder refuses a piece"), err)
	}
	flags := c.flags[:len(made)]
	if _, err := io.ReadFull(c.in, flags); err != nil {
		return err
	}
	c.parts = p.Slot.AppendSamples(c.parts[:0], p.First, len(made))
	size := 0
	for _, part := range c.parts {
		n, err := io.ReadFull(c.in, part)
		if err != nil {
			return err
		}
		size += n
	}
	good := 0
	for i, flag := range flags {
		if made[i] = flag == 1; made[i] {
			good++
		}
	}
	c.feeder.count(0, status.FeederWork{Samples: int64(good), Again: int64(len(made) - good), Bytes: int64(size)})
	return nil
}
