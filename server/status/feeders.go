package status

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// Feeders are the other machines that make samples for a server, as they are listed now.
type Feeders struct {
	FeederWork          // work of all feeders
	Each       []Feeder `json:"each"` // feeders sorted by address
}

// A Feeder is one of them.
type Feeder struct {
	Address     string `json:"address"`
	Connections int64  `json:"connections"` // 0: it is not connected
	Trouble     string `json:"trouble"`     // the last one, "" if there was none
	FeederWork
}

// FeederWork is what came from feeders. It counts from when a feeder was listed.
type FeederWork struct {
	Samples int64 `json:"samples"`
	Again   int64 `json:"again"` // samples of pieces that were late or lost, or which it could not read: the server made them
	Late    int64 `json:"late"`  // pieces
	Bytes   int64 `json:"bytes"` // bytes received

	SamplesPerSecond float64 `json:"samples_per_second"` // rate of the last seconds, like the next two
	BytesPerSecond   float64 `json:"bytes_per_second"`
	Share            float64 `json:"share"` // share of all samples
}

// Add adds what e counts.
func (w *FeederWork) Add(e FeederWork) {
	w.Samples += e.Samples
	w.Again += e.Again
	w.Late += e.Late
	w.Bytes += e.Bytes
}

// connected returns how many feeders are connected.
func (fs *Feeders) connected() (n int) {
	for i := range fs.Each {
		if fs.Each[i].Connections > 0 {
			n++
		}
	}
	return n
}

// advice says what to do where threads and feeders do not keep up. The server does not know how much more the client would take,
// but how much one feeder makes.
func (fs *Feeders) advice() string {
	n := fs.connected()
	if n == 0 {
		text := "No feeder is connected: start imgfeed feed where --feeders names it."
		for _, f := range fs.Each {
			if f.Trouble != "" {
				return fmt.Sprintf("%s The last trouble with %s: %s.", text, f.Address, f.Trouble)
			}
		}
		return text
	}
	ofOne := bytesize.Rounded(fs.SamplesPerSecond / float64(n))
	if lost := len(fs.Each) - n; lost > 0 {
		return fmt.Sprintf("%s not connected: the status names why. One feeder makes %s images/s now on average.",
			bytesize.Counted(lost, "feeder is", "feeders are"), ofOne)
	}
	return fmt.Sprintf("Add feeders: one makes %s images/s now on average, and another one like it adds about as many. Or give "+
		"the server more cores (--threads).", ofOne)
}

// text describes the feeders for a terminal, in lines.
func (fs *Feeders) text() string {
	text := fmt.Sprintf("feeders: %d of %d connected, %s", fs.connected(), len(fs.Each), fs.line())
	for _, f := range fs.Each {
		work := f.line()
		if f.Connections == 0 {
			work = "not connected: " + f.Trouble
		}
		text += fmt.Sprintf("\n  %s: %s", f.Address, work)
	}
	return text
}

func (w *FeederWork) line() string {
	return fmt.Sprintf("%s images/s, %.0f %% of all, %s/s; %s late, %s made again here", bytesize.Rounded(w.SamplesPerSecond), 100*w.Share,
		bytesize.Format(int64(w.BytesPerSecond)), bytesize.Counted(int(w.Late), "piece", "pieces"),
		bytesize.Counted(int(w.Again), "sample", "samples"))
}

// Feeding is what a feeder does for servers. Its [Status].Images are those that it made for them.
type Feeding struct {
	Connections int64   `json:"connections"` // connections of servers
	Pieces      int64   `json:"pieces"`      // pieces made
	Busy        float64 `json:"busy"`        // share of the threads' time in the last seconds
}
