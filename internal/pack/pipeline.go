package pack

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/source"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	// jobsPerWorker is how many images are under way for each worker, so that a large one holds up nobody.
	jobsPerWorker = 8
	// keptBytesMax is the largest buffer that is kept for the next image.
	keptBytesMax = 4 << 20
)

// builder is one build under way.
type builder struct {
	options *Options
	name    string                    // of the split
	path    string                    // of what is packed, for messages
	label   func(*ref) (int32, error) // of an item
	writer  *shard.SetWriter
	feed    feed
	rejects rejectList
	summary Summary
	packed  int
}

func (b *builder) close() {
	b.rejects.close()
	if b.feed != nil {
		b.feed.close()
	}
}

func (b *builder) report(stage Stage, images int, bytes, total int64) {
	if b.options.Progress != nil {
		b.options.Progress(Progress{Split: b.name, Stage: stage, Images: images, Bytes: bytes, Total: total, Rejected: b.summary.Rejected})
	}
}

// job is an image on its way through the workers. Jobs are used again and again: their number bounds the memory.
type job struct {
	ref     ref
	buf     []byte
	scratch Scratch
	sample  shard.Sample
	reason  string // why the file is left out, or ""
	err     error  // what ends the build
	done    chan struct{}
}

// pack takes every item of the feed through the workers, in order, into the set.
func (b *builder) pack(ctx context.Context) error {
	n := b.options.Jobs * jobsPerWorker
	free, todo, order := make(chan *job, n), make(chan *job, n), make(chan *job, n)
	for range n {
		free <- &job{done: make(chan struct{}, 1)}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		for r, err := range b.feed.refs() {
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case j := <-free:
				j.ref = r
				order <- j // never waits: there are as many places as jobs
				todo <- j
			}
		}
		return nil
	})
	for range b.options.Jobs {
		g.Go(func() error {
			worker := &guardedWorker{encoder: b.options.Encoder}
			for j := range todo {
				if ctx.Err() == nil {
					b.run(worker, j)
				}
				j.done <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range order {
			<-j.done
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.write(j); err != nil {
				return err
			}
			b.feed.done(&j.ref)
			free <- j
		}
		return nil
	})
	return g.Wait()
}

// run reads and encodes one image.
func (b *builder) run(worker Worker, j *job) {
	j.reason, j.err, j.sample = j.ref.reason, nil, shard.Sample{}
	if j.reason != "" {
		return
	}
	if cap(j.buf) > keptBytesMax {
		j.buf = nil
	}
	if cap(j.scratch.Image) > keptBytesMax {
		j.scratch.Image = nil
	}
	data, err := b.feed.load(&j.ref, j.buf)
	var reject *source.RejectError
	if errors.As(err, &reject) {
		j.reason = reject.Reason
		return
	}
	if err != nil {
		j.err = err
		return
	}
	j.buf, j.ref.size = data, int64(len(data))
	label, err := b.label(&j.ref)
	if err != nil {
		j.err = err
		return
	}
	j.sample, err = worker.Encode(&j.scratch, Input{Key: j.ref.key, Label: label, Data: data})
	if err != nil {
		j.reason = err.Error()
	}
}

// write appends a finished job to the set, or to the list of rejects.
func (b *builder) write(j *job) error {
	if j.err != nil {
		return j.err
	}
	sum := &b.summary
	if j.reason != "" {
		r := Reject{Key: j.ref.key, Bytes: j.ref.size, Reason: j.reason}
		if sum.Rejected++; len(sum.Rejects) < rejectsShownMax {
			sum.Rejects = append(sum.Rejects, r)
		}
		if err := b.rejects.add(r); err != nil {
			return err
		}
	} else {
		if err := b.writer.Append(j.sample); err != nil {
			return err
		}
		if sum.Formats == nil {
			sum.Formats = make(map[shard.Format]int)
		}
		sum.Formats[j.sample.Format]++
		sum.ImageBytes += int64(len(j.sample.Image))
		sum.AuxBytes += int64(len(j.sample.Aux))
		b.packed++
	}
	b.report(StagePack, b.packed+sum.Rejected, sum.ImageBytes+sum.AuxBytes, int64(b.feed.count()))
	return nil
}
