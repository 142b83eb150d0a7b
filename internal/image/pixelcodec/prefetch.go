package pixelcodec

import "github.com/imgfeed/imgfeed/internal/kernel"

// prefetcher fetches memory into the cache, piece by piece, while something else is computed: the blob that comes next
// while this one is decoded. Decoding leaves the memory idle most of the time; without this, a blob that lies in no cache
// takes half as long to be read (by its checksum, before all) as to be decoded.
type prefetcher struct {
	rest []byte
	step int // bytes at a time
}

// Prefetch names the memory that the next Decode or DecodeTo fetches as it goes; it reads nothing of it.
func (p *prefetcher) Prefetch(memory []byte) { p.rest = memory }

const cacheLine = 64

// begin spreads the memory over a number of steps.
func (p *prefetcher) begin(steps int) {
	p.step = (len(p.rest)/max(steps, 1) + cacheLine) &^ (cacheLine - 1)
}

// fetch does one step.
func (p *prefetcher) fetch() { kernel.Prefetch(p.take()) }

// take returns the memory of one step.
func (p *prefetcher) take() []byte {
	n := min(p.step, len(p.rest))
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// A fetch is memory for a kernel to fetch while it does something else.
type fetch struct {
	memory []byte
	apart  int // bytes from one place that is fetched to the next, a cache line at most
}

// share does one step, or leaves it to a kernel that can fetch at the given number of places. If there is nothing, the kernel
// is given idle, memory that is in the cache.
func (p *prefetcher) share(places int, idle []byte) fetch {
	memory := p.take()
	apart := (len(memory) + places - 1) / places
	if apart > cacheLine {
		kernel.Prefetch(memory)
		apart = 0
	}
	if apart == 0 {
		return fetch{memory: idle}
	}
	return fetch{memory, apart}
}
