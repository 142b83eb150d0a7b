package storage

// A short record costs a request as much as a long one does: at 30 ms, requests for images of 1.5 KB fill 2 % of a link of 1 Gbit/s. So of a file of short records
// one request brings all of the piece that a record lies in, and the cache keeps it.
const (
	shortRecord    = 8 << 10 // bytes; requests for longer ones fill a link by themselves
	shortLearned   = 16      // records to learn from
	joinedBytes    = 256 << 10
	joinedUnderWay = 64
)

var joinedPlaces = make(chan []byte, joinedUnderWay) // holds the buffers

func init() {
	for range joinedUnderWay {
		joinedPlaces <- nil
	}
}

// isShort reports whether the records of a file are short, after one more.
func (o *cachedObject) isShort(length int64) bool {
	records, bytes := o.records.Add(1), o.recordBytes.Add(length)
	return records > shortLearned && bytes < records*shortRecord
}

// fillRecord is fill for a record.
func (f *cachedFile) fillRecord(buf []byte, offset, length int64) ([]byte, error) {
	if f.object.isShort(length) {
		f.Join(offset, length)
		if f.Kept(offset, length) {
			if n, _ := f.local.ReadAt(buf[:length], offset); int64(n) == length {
				return buf[:length], nil
			}
		}
	}
	return f.fill(buf, offset, length)
}

// A Joiner is a [File] of a network of which a cache keeps parts.
type Joiner interface {
	File
	// Join fetches a range, and what lies around it, to be kept.
	Join(offset, length int64)
}

// Join implements [Joiner]. What is put together from several files is not fetched beforehand.
func (f *cachedFile) Join(offset, length int64) {
	if _, plain := f.File.(*remoteFile); !plain {
		return
	}
	for begin := offset &^ (joinedBytes - 1); begin < offset+length; begin += joinedBytes {
		f.object.join(f.File, begin)
	}
}

// join fetches the piece that begins at an offset, unless it is under way already, and waits for it. If that fails, or there is no room for it, the record is
// fetched alone.
func (o *cachedObject) join(from File, begin int64) {
	o.mu.Lock()
	if other := o.joining[begin]; other != nil {
		o.mu.Unlock()
		<-other
		return
	}
	done := make(chan struct{})
	if o.joining == nil {
		o.joining = map[int64]chan struct{}{}
	}
	o.joining[begin] = done
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		delete(o.joining, begin)
		o.mu.Unlock()
		close(done)
	}()
	first, last := o.missing(begin, min(joinedBytes, o.size-begin))
	if first > last || !o.cache.fits(joinedBytes) {
		return
	}
	buf := <-joinedPlaces
	if buf == nil {
		buf = make([]byte, joinedBytes)
	}
	part := buf[:min((last+1)*blockBytes, o.size)-first*blockBytes]
	if n, _ := from.ReadAt(part, first*blockBytes); n == len(part) {
		o.cache.stats.MissBytes.Add(int64(n))
		o.write(first, part)
	}
	joinedPlaces <- buf
}
