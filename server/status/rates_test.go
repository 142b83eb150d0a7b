package status

import (
	"math"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
)

// lookAt returns the status of a moment, of a session that has waited for the client for so many seconds. Without an epoch it has none.
func lookAt(at, waited float64, waits, epoch bool) *Status {
	s := Session{Session: 7, Set: &Set{}, Waits: loader.Waits{Client: time.Duration(waited * float64(time.Second)), ClientNow: waits}}
	if epoch {
		s.Epoch = new(1)
	}
	return &Status{Now: at, Workers: 1, Sessions: []Session{s}}
}

// TestWaitsOfASession looks back over the last seconds in which epochs ran, with short pauses between them.
func TestWaitsOfASession(t *testing.T) {
	var h History
	check := func(at, waited float64, waits bool, want float64) {
		t.Helper()
		st := lookAt(at, waited, waits, true)
		got, reads := h.waitsLocked(st, &st.Sessions[0])
		testenv.Check(t, math.Abs(got-want) <= 1e-6 && reads == 0, "at %v the shares are %v and %v, want %v and 0", at, got, reads, want)
	}
	check(10, 3, false, 0)
	check(10, 3, true, 1) // as it is now
	h.Add(lookAt(10, 3, false, true))
	check(10.9, 3.5, true, 1) // too early for a share
	check(12, 3.5, false, 0.25)
	for at := 11.0; at < 21; at++ {
		h.Add(lookAt(at, 3+(at-10)/2, false, true))
	}
	check(20, 8, true, 0.5) // of the last seconds
	check(21, 9, true, 3.5/6)
	h.Add(lookAt(21, 8, true, false))
	h.Add(lookAt(22, 8, true, false))
	check(23, 8, false, 1.5/6) // since 17
	h.Add(lookAt(23, 8, true, false))
	h.Add(lookAt(24, 8, true, false))
	check(24.5, 12.5, true, 1) // a pause does not count as time of an epoch
	check(24.5, 12.5, false, 0)
}

// TestLimitOfShortEpochs has epochs of two seconds, each of which begins with half a second of work or ends with half a second of
// waiting.
func TestLimitOfShortEpochs(t *testing.T) {
	for _, clientBound := range []bool{true, false} {
		var h History
		waited, second := 0.0, 0.3
		for ms := 0; ms < 60_000; ms += 10 {
			at := float64(ms) / 1000
			waits := ms%2000 >= 500
			if !clientBound {
				waits = ms%2000 >= 1500
			}
			if waits {
				waited += 0.01
			}
			st := lookAt(at, waited, waits, true)
			if at >= second {
				second += 1.01
				h.Add(st)
			}
			if h.Judge(st); ms > 4000 && (st.Sessions[0].WaitingFor == Client) != clientBound {
				t.Errorf("at %v s the session waits for %s", at, st.Sessions[0].WaitingFor)
			}
		}
	}
}

// TestRates looks at totals that grow, that are new and that have begun anew, of a server, a session, a feeder and a store.
func TestRates(t *testing.T) {
	var h History
	var last *Status
	for i := range 4 {
		at := int64(i)
		st := lookAt(float64(100+i), 0, false, true)
		st.Started, st.Processed, st.ReadBytes, st.Threads = 99, 10*at, 500*at, 1
		st.Seconds = map[string]float64{"read": 0.2 * float64(at), "decode": 0.3 * float64(at)}
		st.Sessions[0].Images, st.Sessions[0].EpochBatches, st.Sessions[0].BatchSize = 40*at, 10, 8
		st.Images = 40 * at
		st.Sets = []Set{{InStore: true}}
		st.Store = &Store{Requests: 5 * at, Bytes: 300 * at, HitBytes: 100 * at, UnderWay: 6 - at}
		st.Feeders = &Feeders{Each: []Feeder{{Address: "a", FeederWork: FeederWork{Samples: 1000 + 30*at}}}}
		if i > 1 { // the feeder was listed anew
			st.Feeders.Each[0].Samples = 30 * (at - 2)
		}
		if i < 2 { // the session is not open yet
			st.Sessions = nil
		}
		h.Add(st)
		last = st
	}
	s, f, r := last.Sessions[0], last.Feeders, last.Store.Rates
	testenv.Check(t, s.ImagesPerSecond == 40 && last.ImagesPerSecond == 40 && s.SecondsLeft != nil && *s.SecondsLeft == 2,
		"session %+v", s)
	testenv.Check(t, f.SamplesPerSecond == 30 && f.Each[0].SamplesPerSecond == 30 && f.Share == 0.75, "feeders %+v", f)
	testenv.Check(t, r.Requests == 5 && r.StoreBytes == 300 && r.CacheBytes == 100 && *r.MemoryBytes == 100 && r.UnderWay == 4,
		"store %+v, %v from memory", r, *r.MemoryBytes)
	moments := h.After(102.5)
	if len(moments) != 1 || moments[0].Images != 40 || moments[0].Bytes != 500 || math.Abs(moments[0].Wait-0.5) > 1e-9 || moments[0].Waiting != 1 {
		t.Errorf("moments %+v", moments)
	}
	last.Feeding = &Feeding{}
	if h.Judge(last); math.Abs(last.Feeding.Busy-0.5) > 1e-9 || last.ImagesPerSecond != 40 {
		t.Errorf("a feeder: %+v, %v images/s", last.Feeding, last.ImagesPerSecond)
	}
}
