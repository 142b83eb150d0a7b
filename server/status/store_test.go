package status

import (
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
	command := bucket.repack("pixels", "")
	testenv.Check(t, command == "\n    imgshard repack s3://bucket/train -o train-pixels --encoding pixels", "%v", command)
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
		got := s.text()
		testenv.Check(t, got == strings.Join(want, "\n"), "%q, want %q", got, want)
	}
	store := "store: 3.0 MiB/s, 25 requests/s, 12 of 64 under way, 0.4/s repeated"
	check(store, "from memory 10 %, cache 60 %, store 30 %; cache 25 % of 4.0 GiB, hit rate 67 %")
	s.CacheFailure = "no space left on device"
	check(store, "from memory 10 %, cache 60 %, store 30 %", "cache keeps nothing: no space left on device")
	s.CacheFailure, s.CacheMax, s.Rates.CacheBytes, s.Rates.MemoryBytes = "", 0, 0, nil
	check(store, "from memory –, cache 0 %, store 100 %")
}
