package capacity

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Link joins the machine and the store that holds the set. [Plan.Compute] says what the chosen encoding asks of it.
type Link struct {
	BytesPerSecond    float64 `json:"bytes_per_second"`
	Measured          bool    `json:"measured"`
	FirstEpochSeconds float64 `json:"first_epoch_seconds"` // at least
	Requests          int     `json:"requests"`            // of an epoch without a cache
	CacheBytes        int64   `json:"cache_bytes"`         // of a cache with which later epochs do not wait for the link
}

// compute says what an epoch of the chosen encoding asks of the link. A cache that holds a share of the set spares later epochs that share of the bytes.
func (l *Link) compute(p *Plan) {
	o := &p.Encodings[p.Chosen]
	wanted := min(o.ReadRate, o.PerSecond*o.ImageBytes)
	l.FirstEpochSeconds = float64(o.SetBytes) / min(wanted, l.BytesPerSecond)
	l.Requests = p.Samples
	if l.BytesPerSecond < wanted {
		l.CacheBytes = int64(float64(o.SetBytes) * (1 - l.BytesPerSecond/(wanted*headroom)))
	}
}

// storeReaders are more than the requests that a measurement can find to be worthwhile.
const storeReaders = 512

// LinkRate measures how many bytes a second the set's store gives when its records are read as an epoch reads them. The first half of the duration is for
// the reader to find how many requests at once pay, and does not count.
func LinkRate(ctx context.Context, s *Sample, d time.Duration) (bytesPerSecond float64, err error) {
	timed, cancel := context.WithCancel(ctx)
	defer cancel()
	readers, running := errgroup.WithContext(timed)
	for r := range storeReaders {
		readers.Go(func() (err error) {
			random := rand.New(rand.NewPCG(uint64(r), 0))
			for buf := []byte(nil); err == nil && running.Err() == nil; {
				_, buf, err = s.set.Read(s.indices[random.IntN(len(s.indices))], buf)
			}
			return err
		})
	}
	for half := 0; half < 2 || bytesPerSecond == 0 && running.Err() == nil; half++ {
		started, before := time.Now(), storage.RemoteCounts.Bytes.Load()
		select {
		case <-time.After(d / 2):
		case <-running.Done():
		}
		bytesPerSecond = float64(storage.RemoteCounts.Bytes.Load()-before) / time.Since(started).Seconds()
	}
	cancel()
	return bytesPerSecond, cmp.Or(readers.Wait(), ctx.Err())
}
