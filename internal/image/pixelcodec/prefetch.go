package pixelcodec

import "github.com/imgfeed/imgfeed/internal/kernel"

// prefetcher fetches memory into the cache, piece by piece, during other work: the next blob while this one is decoded. Decoding leaves the
// memory idle most of the time. Without prefetching, reading an uncached blob, first by its checksum, takes half as long as decoding it.
type prefetcher struct {
	memory []byte
	step   int // bytes per step
}

// Prefetch sets the memory that the next Decode or DecodeTo fetches. The memory is not read.
func (p *prefetcher) Prefetch(memory []byte) { p.memory = memory }

const cacheLine = 64

// begin spreads the memory over a number of steps.
func (p *prefetcher) begin(steps int) {
	p.step = (len(p.memory)/max(steps, 1) + cacheLine) &^ (cacheLine - 1)
}

func (p *prefetcher) fetch() { kernel.Prefetch(p.take()) }

// take returns the memory of one step.
func (p *prefetcher) take() []byte {
	n := min(p.step, len(p.memory))
	part := p.memory[:n]
	p.memory = p.memory[n:]
	return part
}

// A fetch is memory for a kernel to fetch during other work.
type fetch struct {
	memory []byte
	step   int // distance of the fetches in bytes, at most a cache line
}

// share does one step, or leaves it to a kernel that can do the given number of fetches. If there is nothing to
// fetch, the kernel gets idle, which is already in the cache.
func (p *prefetcher) share(fetches int, idle []byte) fetch {
	memory := p.take()
	step := (len(memory) + fetches - 1) / fetches
	if step > cacheLine {
		kernel.Prefetch(memory)
		step = 0
	}
	if step == 0 {
		return fetch{memory: idle}
	}
	return fetch{memory, step}
}
