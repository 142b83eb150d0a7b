package storage

import (
	"sync"
	"sync/atomic"
	"time"
)

// A pageCache decides which ranges of a folder's files the page cache of the system keeps. If there is room for all open files, it keeps
// every range in the end, at the pace of cacheEvery. Otherwise it keeps a fixed choice of ranges, as many as fit, and finds them again in
// the next epoch; the others are read directly, as they would only push those out. For a set four times as large as the memory, direct
// reads double the rate of pixels, and take 10 to 20 % of the CPU time off a JPEG.
//
// What the policy knows comes from count and waits; keeps only asks.
type pageCache struct {
	files    atomic.Int64 // bytes of the open files
	counted  atomic.Int64 // ranges that fit, so far
	waits    atomic.Int64 // reads that somebody waited for, among the last waitedOf
	quiet    atomic.Bool  // few of the last waitedOf reads were waited for
	cpuBound atomic.Bool  // few of the last waitedOf reads waited, nor of those before them
	whole    atomic.Bool  // all files fit

	mu      sync.Mutex
	share   float64   // part of the files that fits
	shareAt time.Time // time of its computation
}

// count notes that the range at offset is about to be read, in a memory that holds room bytes of files. It returns the range's turn among
// those that fit, from 1 on, and 0 for a range that does not fit.
func (p *pageCache) count(offset int64, room func() int64) (turn int64) {
	p.mu.Lock()
	if now := time.Now(); now.Sub(p.shareAt) > shareFor {
		p.share, p.shareAt = cacheShare(p.files.Load(), room()), now
		p.whole.Store(p.share == 1)
	}
	share := p.share
	p.mu.Unlock()
	hash := uint32(offset/sector+1) * 0x9E3779B1 // Fibonacci hashing: its upper bits are even over any offsets
	if float64(hash) >= share*(1<<32) {
		return 0
	}
	turn = p.counted.Add(1)
	if turn%waitedOf == 0 {
		quiet := p.waits.Swap(0) < waitsMin
		p.cpuBound.Store(p.quiet.Swap(quiet) && quiet) // a single quiet window is often chance
	}
	return turn
}

// keeps reports whether the range with a turn is read through the page cache, which then keeps it. slow is a slow file system.
func (p *pageCache) keeps(turn int64, slow bool) bool {
	every := cacheEvery[p.cpuBound.Load() && p.whole.Load()].local
	if slow {
		every = cacheEvery[p.cpuBound.Load()].slow
	}
	return turn > 0 && turn%every == 0
}

// cacheEvery says which of the ranges that fit in the page cache are read into it: one in so many, on local disks and on slow file systems.
// A JPEG of 110 KB costs 90 to 140 µs more processor time by the page cache than by a direct read. That is a sixth to a quarter of its
// decoding (Zen 4, EPYC family 25 model 17). Not all take that way while the processors are the limit. One in two makes
// the first epoch of JPEGs on two threads 3 % slower than one in three. One in four makes the next epoch of pixels on one thread 4 to 9 %
// slower, as more is read from the disk again (Intel, family 6 model 167).
var cacheEvery = map[bool]struct{ local, slow int64 }{
	false: {1, 2},  // reads are waited for
	true:  {3, 16}, // the processors are the limit
}

// If the disk is the limit, at least waitsMin of waitedOf reads are waited for. Measured: 9 to 21 of JPEGs and pixels from a disk of
// 60 MB/s, and 0 to 6 where the processors are the limit. With 4, and not 8, pixels from a fast disk are kept sooner, so that the next
// epoch on one thread is faster, and JPEGs are as fast as before (Intel, family 6 model 167).
const (
	waitedOf = 256
	waitsMin = 4
)

// shareFor is how long a share holds: what other programs leave of the memory changes slowly.
const shareFor = 10 * time.Second

// cacheShare returns the share of so many bytes that a page cache of room bytes keeps. It leaves a fifth of the room to others, and half if
// the files need it all.
func cacheShare(bytes, room int64) float64 {
	if float64(bytes) <= 0.8*float64(room) {
		return 1
	}
	return float64(room) / 2 / float64(bytes)
}
