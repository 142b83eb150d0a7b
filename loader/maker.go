package loader

import (
	"context"
	"unsafe"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Maker makes pieces for streams of other machines: the other end of a [Remote]. It serves one goroutine at a time, and must be closed.
type Maker struct {
	pool    *Pool
	records recordReader
}

// NewMaker returns a maker on the pool's workers.
func (p *Pool) NewMaker() *Maker { return &Maker{pool: p} }

// Close gives the maker's memory back.
func (m *Maker) Close() { m.records.close() }

// Make makes a piece as a stream does that has the set, views, layout and fields of cfg, and sets made[i] for each sample that it could make.
// The reads of all its samples begin at once, so that a bucket's delay is paid once. It returns an error only if ctx has ended or the pool is closed.
func (m *Maker) Make(ctx context.Context, cfg *StreamConfig, p *Piece, made []bool) error {
	m.records.read(cfg.Dataset, p.Indices, nil)
	return m.pool.do(ctx, len(p.Indices), func(w *worker, i int) error {
		made[i] = w.makeOne(cfg, p, i, m.records.access[i]) == nil
		w.publish()
		return nil
	})
}

// A recordReader reads the records of a piece's samples at the same time.
type recordReader struct {
	reads  [PieceSamplesMax]fetch
	under  [PieceSamplesMax]bool // way, of reads
	access [PieceSamplesMax]Access
	memory []byte // that is read into
}

// recordReaderBytes is how much is read at once.
const recordReaderBytes = 32 << 20

// read reads those records that are not at hand nor to be skipped, as many as there is memory for, and waits for them. skip may be nil. What access has no bytes for
// is a worker's to read.
func (r *recordReader) read(set Dataset, indices []int, skip []bool) {
	var ranges [PieceSamplesMax]storage.Range
	total, reads := 0, 0
	for i, index := range indices {
		r.access[i], r.under[i] = Access{View: true}, false
		if skip != nil && skip[i] {
			continue
		}
		where, err := set.Range(index)
		if err != nil || where.File == nil || where.File.WillNeed(where.Offset, where.Length) {
			continue // an error is the worker's to find
		}
		if bytes := readRoom(where); total+bytes <= recordReaderBytes && reads < where.File.ReadsMax() {
			ranges[i], total, reads = where, total+bytes, reads+1
		}
	}
	if total > len(r.memory) {
		r.close()
		var err error
		if r.memory, err = storage.NewMemory(total); err != nil {
			return
		}
	}
	at := 0
	for i, where := range ranges[:len(indices)] {
		if where.File == nil {
			continue
		}
		n := readRoom(where)
		r.reads[i].prepare(where, r.memory[at:at+n:at+n])
		r.reads[i].begin()
		r.under[i], at = true, at+n
	}
	for i := range indices {
		if r.under[i] {
			data, _, err := r.reads[i].wait(context.Background())
			if err != nil {
				data = r.reads[i].memory()
			}
			r.access[i] = Access{Bytes: data, Err: err}
		}
	}
}

// close gives the memory back.
func (r *recordReader) close() {
	storage.Unmap(r.memory)
	r.memory = nil
}

// readRoom is the memory that reading a range takes, in whole pages.
func readRoom(r storage.Range) int {
	return (int(r.Length) + storage.FetchRoom + shard.SlackBytes + pieceAlign - 1) &^ (pieceAlign - 1)
}

// makeOne makes a sample of a piece.
func (w *worker) makeOne(cfg *StreamConfig, p *Piece, i int, from Access) (err error) {
	index := p.Indices[i]
	defer func() {
		if panicked := recover(); panicked != nil {
			err = w.failure(cfg.Dataset, index, panicked)
		}
	}()
	source, err := w.load(cfg.Dataset, index, from)
	if err != nil {
		return err
	}
	w.pending.Images++
	w.pending.BytesRead += w.stored()
	return w.fill(cfg, cfg.Views, p.Slot, p.First+i, source, drawKey{p.Seed, p.Epoch, index, p.Repetition(i)})
}

// AppendPlaces appends the memory of n places of a slot, from first on, in the order in which it travels from a [Maker] to a [Remote]: labels, then params, images and
// fields. Of numbers it is their memory, in this machine's byte order. Indices and repetitions are known on both sides.
func (s *Slot) AppendPlaces(parts [][]byte, first, n int) [][]byte {
	room := len(s.Labels)
	places := func(memory []byte) {
		stride := len(memory) / room
		parts = append(parts, memory[first*stride:(first+n)*stride:(first+n)*stride])
	}
	places(bytesOf(s.Labels))
	for _, params := range s.Params {
		places(bytesOf(params))
	}
	for _, images := range s.Images {
		places(images)
	}
	for _, field := range s.Fields {
		places(field)
	}
	return parts
}

func bytesOf[T int32 | int64](numbers []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*int(unsafe.Sizeof(zero)))
}
