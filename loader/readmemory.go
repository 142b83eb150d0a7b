package loader

import (
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A readMemory is what all prefetchers of a pool read into. Each of them may hold an equal share of it.
type readMemory struct {
	max     int64
	reading func(int) // is told how many processors reading takes; or nil

	mu     sync.Mutex
	bytes  []byte   // nil while nobody reads
	free   []extent // of bytes, in their order
	users  []*prefetcher
	failed error // why there is none

	processors int // that reading takes
}

const (
	// processorsReading are for the goroutine that asks for the next samples: a decoding thread can delay it by up to 10 ms.
	processorsReading = 1
	// processorsBlocked are those where goroutines wait in reads, which hold one each until Go takes it back. With one, JPEGs on two threads came at 0.7 of
	// the rate through a file system that takes 2 ms for a read, and pixels of which half are in memory at a fifth (Zen 5). From disks three cost some percent.
	processorsBlocked = 3
)

// An extent is a part of the memory.
type extent struct{ from, to int }

// A piece of the memory is of whole pages. The zero value is none.
type piece struct {
	extent
	bytes []byte
}

const pieceAlign = 4096

// take gives a prefetcher a piece of at least so many bytes, or none where none is free or its share is used up: then it is poked once there may be
// one. fits is false if there never will be.
func (m *readMemory) take(p *prefetcher, from storage.File, bytes int64) (taken piece, fits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bytes = (bytes + pieceAlign - 1) &^ (pieceAlign - 1)
	if bytes > m.max || !m.openLocked(p, from) {
		return piece{}, false
	}
	if p.held > 0 && p.held+bytes > m.max/int64(len(m.users)) {
		return piece{}, true
	}
	for i := range m.free {
		e := &m.free[i]
		if e.to-e.from < int(bytes) {
			continue
		}
		taken.extent = extent{e.from, e.from + int(bytes)}
		taken.bytes = m.bytes[taken.from:taken.to:taken.to]
		if e.from = taken.to; e.from == e.to {
			m.free = slices.Delete(m.free, i, i+1)
		}
		return taken, true
	}
	p.starved = true
	return piece{}, true
}

// openLocked makes p one of the users, which reads from a file.
func (m *readMemory) openLocked(p *prefetcher, from storage.File) bool {
	if slices.Contains(m.users, p) {
		return true
	}
	if m.failed != nil {
		return false
	}
	if m.bytes == nil {
		if m.bytes, m.failed = storage.NewMemory(int(m.max &^ (pieceAlign - 1))); m.failed != nil {
			p.stream.log.Warn("samples are not read ahead: there is no memory for that", "bytes", m.max, "error", m.failed)
			return false
		}
		m.free = append(m.free[:0], extent{0, len(m.bytes)})
	}
	processors := processorsReading
	if storage.Blocks(from) {
		processors = processorsBlocked
	}
	if processors > m.processors {
		m.tell(processors)
	}
	m.users = append(m.users, p)
	return true
}

// give takes a piece back.
func (m *readMemory) give(p piece) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearchFunc(m.free, p.from, func(e extent, from int) int { return e.from - from })
	before, after := i > 0 && m.free[i-1].to == p.from, i < len(m.free) && m.free[i].from == p.to
	switch {
	case before && after:
		m.free[i-1].to = m.free[i].to
		m.free = slices.Delete(m.free, i, i+1)
	case before:
		m.free[i-1].to = p.to
	case after:
		m.free[i].from = p.from
	default:
		m.free = slices.Insert(m.free, i, p.extent)
	}
	for _, u := range m.users {
		if u.starved {
			u.starved = false
			u.poke()
		}
	}
}

// leave takes p from the users, which leaves more for the others, and gives the memory back after the last.
func (m *readMemory) leave(p *prefetcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.users, p)
	if i < 0 {
		return
	}
	m.users = slices.Delete(m.users, i, i+1)
	for _, u := range m.users {
		u.poke()
	}
	if len(m.users) > 0 {
		return
	}
	storage.Unmap(m.bytes)
	m.bytes = nil
	m.tell(0)
}

func (m *readMemory) tell(processors int) {
	if m.processors = processors; m.reading != nil {
		m.reading(processors)
	}
}
