package pixels

import "github.com/imgfeed/imgfeed/transform/kernel"

// prefetcher fetches memory into the cache, piece by piece, while something else is computed: the blob that comes next
// while this one is decoded. Decoding leaves the memory idle most of the time; without this, a blob that lies in no cache
// takes half as long to be read (by its checksum, before all) as to be decoded.
type prefetcher struct {
	rest []byte
	step int // bytes at a time
}

// Ahead names the memory that the next Decode or DecodeTo fetches as it goes; it reads nothing of it.
func (p *prefetcher) Ahead(memory []byte) { p.rest = memory }

// begin spreads the memory over a number of steps.
func (p *prefetcher) begin(steps int) {
	const line = 64
	p.step = (len(p.rest)/max(steps, 1) + line) &^ (line - 1)
}

// fetch does one step.
func (p *prefetcher) fetch() {
	if n := min(p.step, len(p.rest)); n > 0 {
		kernel.Prefetch(p.rest[:n])
		p.rest = p.rest[n:]
	}
}
