package status

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
)

// TestJudgeStore looks at what a session that waits for its reads is advised, by what its store and the cache do.
func TestJudgeStore(t *testing.T) {
	const set = 50 << 30
	busy := StoreRates{UnderWay: 63.8, Requests: 100, StoreBytes: 10 << 20}
	few := StoreRates{UnderWay: 12.3, Requests: 100, StoreBytes: 10 << 20}
	for _, tt := range []struct {
		name  string
		store *Store
		waits WaitingFor
		want  string
	}{
		{"no store", nil, Disk, "Put the set on a faster disk"},
		{"no cache", &Store{SetBytes: set, UnderWay: 1, UnderWayMax: 64, Rates: busy}, FromStore, "--cache with --cache-size of 50.0 GiB holds all of it. 64 requests at a time bring 10.0 MiB/s"},
		{"little is read ahead", &Store{SetBytes: set, UnderWay: 64, UnderWayMax: 64, Rates: few}, FromStore, "Only 12 of 64 requests are under way: allow more memory for reading ahead (--prefetch)"},
		{"the cache is filled", &Store{SetBytes: set, CacheUsed: 1 << 30, CacheMax: 60 << 30, Rates: busy}, FromStore, "The cache is being filled (1.0 GiB of 50.0 GiB)"},
		{"a small cache", &Store{SetBytes: set, CacheUsed: 10<<30 - 1, CacheMax: 10 << 30, Rates: busy}, FromStore, "The cache of 10.0 GiB is full, and the sets have 50.0 GiB: raise --cache-size"},
		{"other sets", &Store{SetBytes: set, CacheUsed: 60 << 30, CacheMax: 60 << 30, Rates: busy}, FromStore, "imgfeed cache ls"},
		{"a full disk", &Store{SetBytes: set, CacheMax: 60 << 30, CacheFailure: "no space left on device", Rates: busy}, FromStore, "The cache keeps nothing at the moment: no space left on device."},
		{
			"it asks for fewer", &Store{SetBytes: set, UnderWayMax: 64, Failure: "s3://b/a: 503 Slow Down", FailureStatus: 503, Rates: StoreRates{Requests: 100, Retries: 20}}, FromStore,
			"20 % of the requests fail and are repeated, the last for: s3://b/a: 503 Slow Down. The store asks for fewer requests: set --store-requests below 64",
		},
		{
			"it does not answer", &Store{SetBytes: set, UnderWayMax: 64, Failure: "s3://b/a: connection refused", Rates: StoreRates{Requests: 2, Retries: 2}}, FromStore,
			"100 % of the requests fail and are repeated, the last for: s3://b/a: connection refused. Check the network and the store.",
		},
		{"the cache gives all", &Store{SetBytes: set, CacheUsed: set, CacheMax: 60 << 30, Rates: StoreRates{CacheBytes: 1 << 20}}, Disk, "All comes from the cache: put that on a faster disk"},
		{"the store is away", &Store{SetBytes: set, CacheUsed: set / 2, CacheMax: 60 << 30, UnderWay: 1, Rates: StoreRates{CacheBytes: 1}}, FromStore, "The cache is being filled"},
	} {
		s := Session{WaitingFor: Disk, Set: &Set{ServedSet: ServedSet{KeepsFiles: true, Stored: "original"}, InStore: tt.store != nil}}
		s.judge(&Status{Threads: 2, Store: tt.store})
		if s.WaitingFor != tt.waits || !strings.Contains(s.Advice, tt.want) || !strings.HasPrefix(s.Verdict, "the "+string(tt.waits)+" is the limit") {
			t.Errorf("%s: %s: %s. %s\nwant %s", tt.name, s.WaitingFor, s.Verdict, s.Advice, tt.want)
		}
	}
}

// TestJudgeCPU looks at which encodings a session is advised that waits for processors.
func TestJudgeCPU(t *testing.T) {
	const path = "/data/a set/train"
	for stored, want := range map[string][2]bool{"original": {true, true}, "coefficients": {false, true}, "pixels (bitpack, resize none)": {false, false}} {
		s := Session{WaitingFor: CPU, Set: &Set{ServedSet: ServedSet{Stored: stored, KeepsFiles: want[1]}, Path: path}}
		s.judge(&Status{Threads: 2})
		got := [2]bool{
			strings.Contains(s.Advice, "\n    imgshard repack '/data/a set/train' -o '/data/a set/train-coefficients' --encoding coefficients"),
			strings.Contains(s.Advice, "\n    imgshard repack '/data/a set/train' -o '/data/a set/train-pixels' --encoding pixels --resize 256"),
		}
		testenv.Check(t, got == want, "%s: %s", stored, s.Advice)
	}
	bucket := Set{ServedSet: ServedSet{KeepsFiles: true}, Path: "s3://bucket/train"}
	testenv.Equal(t, bucket.repack("pixels", ""), "\n    imgshard repack s3://bucket/train -o train-pixels --encoding pixels", "a command")
	bucket.Joined = []int{1, 1}
	testenv.Equal(t, bucket.repack("pixels", ""), "", "a command for joined sets")
}

// TestStoreLines looks at what the terminal shows.
func TestStoreLines(t *testing.T) {
	memory := float64(1 << 20)
	s := Store{
		UnderWay: 12, UnderWayMax: 64, CacheUsed: 1 << 30, CacheMax: 4 << 30,
		Rates: StoreRates{Requests: 25, Retries: 0.4, StoreBytes: 3 << 20, CacheBytes: 6 << 20, MemoryBytes: &memory},
	}
	check := func(want ...string) {
		t.Helper()
		testenv.Equal(t, s.text(), strings.Join(want, "\n"), "the lines")
	}
	store := "store: 3.0 MiB/s, 25 requests/s, 12 of 64 under way, 0.4/s repeated"
	check(store, "from memory 10 %, cache 60 %, store 30 %; cache 25 % of 4.0 GiB, hit rate 67 %")
	s.CacheFailure = "no space left on device"
	check(store, "from memory 10 %, cache 60 %, store 30 %", "cache keeps nothing: no space left on device")
	s.CacheFailure, s.CacheMax, s.Rates.CacheBytes, s.Rates.MemoryBytes = "", 0, 0, nil
	check(store, "from memory –, cache 0 %, store 100 %")
}

// TestJudgeFeeders looks at the advice where threads and feeders do not keep up, and at what the terminal shows.
func TestJudgeFeeders(t *testing.T) {
	work := FeederWork{9000, 64, 1, 0, 1500, 3 << 20, 0.75}
	here, away := Feeder{Address: "a:1", Connections: 4, FeederWork: work}, Feeder{Address: "b:1", Trouble: "dial: connection refused"}
	for _, tt := range []struct {
		feeders         *Feeders
		verdict, advice string
	}{
		{nil, "2 threads spent most of the time", "more cores (--threads), or have other machines help (imgfeed feed)"},
		{&Feeders{}, "2 threads and 0 feeders do not keep up", "start imgfeed feed where --feeders names it."},
		{&Feeders{Each: []Feeder{away}}, "2 threads and 0 feeders do not keep up", "The last trouble with b:1: dial: connection refused."},
		{&Feeders{work, []Feeder{here, away}}, "2 threads and 1 feeder do not keep up", "1 feeder is not connected: the status names why. One feeder makes 1,500 images/s"},
		{&Feeders{work, []Feeder{here, here}}, "2 threads and 2 feeders do not keep up", "Add feeders: one makes 750 images/s now on average"},
	} {
		s := Session{WaitingFor: CPU, Set: &Set{}}
		s.judge(&Status{Threads: 2, Feeders: tt.feeders})
		testenv.Contains(t, s.Verdict, tt.verdict)
		testenv.Contains(t, s.Advice, tt.advice)
	}
	fs := Feeders{work, []Feeder{here, away}}
	of := "1,500 images/s, 75 % of all, 3.0 MiB/s; 1 piece late, 64 samples made again here"
	testenv.Equal(t, fs.text(), "feeders: 1 of 2 connected, "+of+"\n  a:1: "+of+"\n  b:1: not connected: dial: connection refused",
		"the lines")
}

// TestTextFits looks at the width of the text, and at the commands in it, which can be copied.
func TestTextFits(t *testing.T) {
	for _, path := range []string{"/data/train-shards", "/mnt/" + strings.Repeat("x", 90), "/data/a set/" + strings.Repeat("y", 60)} {
		set := Set{ServedSet{Split: "train", Samples: 1281167, Classes: 1000, Partitions: 8, Stored: "original", KeepsFiles: true, Here: make([]int, 8)}, path, false}
		s := Session{Split: "train", Rank: 127, World: 128, ClientPID: 4194304, Slots: 16, SlotsLent: 16, WaitingFor: CPU, Counts: Counts{Images: 1}, Set: &set}
		s.judge(&Status{Threads: 64})
		st := Status{
			Server: "imgfeed 0.1.0", Sets: []Set{set}, Sessions: []Session{s, s}, History: make([]Moment, 1), Threads: 64, Store: &Store{}, Feeders: &Feeders{},
			Damaged: []string{"partition 1 of 3 is not whole: /data/train-shards/rank-0001/00000.imgshard is missing, and so are others that come after it"},
		}
		st.judge()
		text := st.String()
		for _, line := range strings.Split(text, "\n") {
			testenv.Check(t, utf8.RuneCountInString(line) <= 80 || strings.Contains(line, "/mnt/") || strings.HasPrefix(line, commandIndent),
				"more than 80 columns: %s", line)
		}
		for _, line := range strings.Split(s.Advice, "\n") {
			testenv.Check(t, !strings.HasPrefix(line, commandIndent) || strings.Contains(text, line+"\n"), "no %q in\n%s", line, text)
		}
	}
}

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

// TestLimitOfShortEpochs has epochs of two seconds, each of which begins with half a second of work or ends with half a second of waiting.
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
			h.Judge(st)
			testenv.Check(t, ms <= 4000 || (st.Sessions[0].WaitingFor == Client) == clientBound,
				"at %v s the session waits for %s", at, st.Sessions[0].WaitingFor)
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
	testenv.Check(t, s.ImagesPerSecond == 40 && last.ImagesPerSecond == 40 && s.SecondsLeft != nil && *s.SecondsLeft == 2, "session %+v", s)
	testenv.Check(t, f.SamplesPerSecond == 30 && f.Each[0].SamplesPerSecond == 30 && f.Share == 0.75, "feeders %+v", f)
	testenv.Check(t, r.Requests == 5 && r.StoreBytes == 300 && r.CacheBytes == 100 && *r.MemoryBytes == 100 && r.UnderWay == 4,
		"store %+v, %v from memory", r, *r.MemoryBytes)
	moments := h.After(102.5)
	testenv.Require(t, len(moments) == 1 && moments[0].Images == 40 && moments[0].Bytes == 500, "moments %+v", moments)
	testenv.Check(t, math.Abs(moments[0].Wait-0.5) <= 1e-9 && moments[0].Waiting == 1, "moments %+v", moments)
	last.Feeding = &Feeding{}
	h.Judge(last)
	testenv.Check(t, math.Abs(last.Feeding.Busy-0.5) <= 1e-9 && last.ImagesPerSecond == 40, "a feeder: %+v", last)
}
