package status

import (
	"fmt"
	"net/http"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// A Store is what was read of buckets and web servers, and of their cache. Counts are since the server started.
type Store struct {
	Requests    int64 `json:"requests"`
	Retries     int64 `json:"retries"` // requests that repeat a failed one
	UnderWay    int64 `json:"under_way"`
	UnderWayMax int64 `json:"under_way_max"`
	Bytes       int64 `json:"bytes"`      // bytes received
	SetBytes    int64 `json:"set_bytes"`  // bytes of the served sets in the store
	HitBytes    int64 `json:"hit_bytes"`  // bytes read from the cache
	CacheUsed   int64 `json:"cache_used"` // bytes that the cache keeps
	CacheMax    int64 `json:"cache_max"`  // at most; 0 without a cache
	// CacheFailure says why nothing is kept at the moment; "" if something is.
	CacheFailure string `json:"cache_failure"`
	// Failure is the last one for which a request was repeated; "" if there was none.
	Failure       string     `json:"failure"`
	FailureStatus int        `json:"failure_status"` // HTTP status, 0 without an answer
	Rates         StoreRates `json:"rates"`
}

// StoreRates are of the last five seconds, a second.
type StoreRates struct {
	UnderWay   float64 `json:"under_way"` // requests, on average
	Requests   float64 `json:"requests"`
	Retries    float64 `json:"retries"`
	StoreBytes float64 `json:"store_bytes"` // bytes from the store
	CacheBytes float64 `json:"cache_bytes"` // bytes read from the cache
	// MemoryBytes were taken by samples beyond these two: they were read before, and lay in memory. Null where other sets are served too.
	MemoryBytes *float64 `json:"memory_bytes"`
}

// onlyCache says that the cache gives all bytes at the moment.
func (s *Store) onlyCache() bool {
	return s.Rates.CacheBytes > 0 && s.Rates.Requests == 0 && s.UnderWay == 0
}

// retriesMax is the share of requests that may fail before the store is taken to be in trouble.
const retriesMax = 0.05

// advice says how to relieve a limiting store. It ends with the advice pixels if the store itself works. Trouble comes first: as
// long as requests fail, the other figures say little. Then the cache, which a user can enlarge, and last the link.
func (s *Store) advice(pixels string) string {
	if s.Rates.Retries > retriesMax*s.Rates.Requests {
		remedy := "Check the network and the store."
		if s.FailureStatus == http.StatusTooManyRequests || s.FailureStatus == http.StatusServiceUnavailable {
			remedy = fmt.Sprintf("The store asks for fewer requests: set --store-requests below %d, or have its limit raised.",
				s.UnderWayMax)
		}
		return fmt.Sprintf("%.0f %% of the requests fail and are repeated, the last for: %s. %s",
			100*s.Rates.Retries/s.Rates.Requests, s.Failure, remedy)
	}
	set, cache := bytesize.Format(s.SetBytes), bytesize.Format(s.CacheMax)
	var text string
	switch {
	case s.CacheMax == 0:
		text = fmt.Sprintf("Keep what was read on a local disk: --cache with --cache-size of %s holds all of it.", set)
	case s.CacheFailure != "":
		text = fmt.Sprintf("The cache keeps nothing at the moment: %s. Make room on its disk.", s.CacheFailure)
	case s.CacheUsed < s.CacheMax-s.CacheMax/20 && s.CacheUsed < s.SetBytes:
		text = fmt.Sprintf("The cache is being filled (%s of %s): later epochs read from it.", bytesize.Format(s.CacheUsed), set)
	case s.CacheMax < s.SetBytes:
		text = fmt.Sprintf("The cache of %s is full, and the sets have %s: raise --cache-size.", cache, set)
	default:
		text = fmt.Sprintf("The cache of %s is full of other sets too: imgfeed cache ls lists them.", cache)
	}
	if s.Rates.UnderWay < float64(s.UnderWayMax)/2 {
		return text + fmt.Sprintf(" Only %.0f of %d requests are under way: allow more memory for reading ahead (--prefetch).",
			s.Rates.UnderWay, s.UnderWayMax) + pixels
	}
	return text + fmt.Sprintf(" %.0f requests at a time bring %s/s: a faster link or a nearer store brings more.", s.Rates.UnderWay,
		bytesize.Format(int64(s.Rates.StoreBytes))) + pixels
}

// text describes the store for a terminal, in lines.
func (s *Store) text() string {
	r, inMemory := &s.Rates, "–"
	all := r.CacheBytes + r.StoreBytes
	if r.MemoryBytes != nil {
		all += *r.MemoryBytes
	}
	share := func(bytes float64) string { return fmt.Sprintf("%.0f %%", 100*bytes/max(1, all)) }
	if r.MemoryBytes != nil {
		inMemory = share(*r.MemoryBytes)
	}
	text := fmt.Sprintf("store: %s/s, %.0f requests/s, %d of %d under way, %.1f/s repeated\nfrom memory %s, cache %s, store %s",
		bytesize.Format(int64(r.StoreBytes)), r.Requests, s.UnderWay, s.UnderWayMax, r.Retries,
		inMemory, share(r.CacheBytes), share(r.StoreBytes))
	if s.CacheFailure != "" {
		text += "\ncache keeps nothing: " + s.CacheFailure
	} else if s.CacheMax > 0 {
		text += fmt.Sprintf("; cache %d %% of %s, hit rate %.0f %%", 100*s.CacheUsed/s.CacheMax, bytesize.Format(s.CacheMax),
			100*r.CacheBytes/max(1, r.CacheBytes+r.StoreBytes))
	}
	return text
}
