package pack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/source"
)

const (
	// imagesPerWorker is how many images are in flight for each worker, so that a large one holds up nobody.
	imagesPerWorker = 8
	// keptBytesMax is the largest buffer that is kept for the next image.
	keptBytesMax = 4 << 20
)

// builder is one build under way: it takes every item of its input through the workers into the set.
type builder struct {
	options  *Options
	split    string
	input    input
	writer   *shard.SetWriter
	rejects  lineList
	narrow   narrowImages
	built    map[string]string            // of the manifest
	source   string                       // of an index: the place of its files
	items    lineList                     // of a part: partItems
	objects  lineList                     // of a part of an index of tars
	keys     int                          // of a part's source,
	keysSum  uint64                       // and the sum of their hashes
	indexed  *source.Split                // that an index is made of; nil: a set
	index    *indexer                     // of the index
	listed   func(classes []string) error // gets the classes once they are known; may be nil
	summary  Summary
	packed   int
	labelled []bool // which classes have a packed sample
}

func newBuilder(split string, in input, o Options) *builder {
	o.fill()
	return &builder{options: &o, split: split, input: in, built: o.built()}
}

// build writes the set to the folder out, from the first file to the last.
func (b *builder) build(ctx context.Context, out string) (sum Summary, err error) {
	o := b.options
	w, err := shard.NewSetWriter(out, shard.SetOptions{
		Split: b.split, Encoding: o.Encoding.Stored(), Partitions: o.Partitions, Seed: o.Seed, ShardBytes: o.ShardBytes,
		Built: b.built, Replace: o.Replace, Fields: b.input.fields(), Source: b.source,
	})
	if err != nil {
		return sum, err
	}
	defer func() {
		if cleanup := w.Abort(); err != nil {
			err = errors.Join(err, cleanup)
		}
	}()
	b.writer = w
	b.rejects = lineList{writer: w, name: shard.RejectsName}
	b.items, b.objects = lineList{writer: w, name: partItemsName}, lineList{writer: w, name: shard.ObjectsName}
	defer b.closeLists()
	defer b.input.close()
	if err := b.gather(ctx); err != nil {
		return sum, err
	}
	if err := b.pack(ctx); err != nil {
		return sum, err
	}
	if err := b.conclude(); err != nil {
		return sum, err
	}
	if err := ctx.Err(); err != nil {
		return sum, err
	}
	m, err := w.Commit()
	if err != nil {
		return sum, err
	}
	sum = b.summary
	sum.Notes = append(b.narrow.notes(), b.emptyClasses(m.Classes)...)
	sum.Split, sum.Output, sum.Manifest = b.split, out, m
	for _, s := range m.Shards {
		if s.Index != nil {
			s.Bytes = s.Index.Bytes
		}
		sum.OutputBytes += s.Bytes
	}
	return sum, nil
}

// gather lists the items and learns the classes.
func (b *builder) gather(ctx context.Context) (err error) {
	part := b.options.Part.Of > 0
	if b.indexed != nil {
		if b.index, err = newIndexer(b.writer, b.indexed); err != nil {
			return err
		}
		if part {
			b.index.part = &b.objects
		}
	}
	if err := b.input.gather(ctx, b); err != nil {
		return err
	}
	if part {
		b.built[builtListing] = fmt.Sprintf("%d keys, %016x", b.keys, b.keysSum) // the writer encodes the map in Commit
	}
	classes := b.input.classes()
	b.labelled = make([]bool, len(classes))
	if err := b.writer.SetClasses(classes); err != nil || b.listed == nil {
		return err
	}
	return b.listed(classes)
}

// emptyClasses names the classes that no packed sample has.
func (b *builder) emptyClasses(classes []string) []string {
	var empty []string
	for label, labelled := range b.labelled {
		if !labelled {
			empty = append(empty, classes[label])
		}
	}
	if len(empty) == 0 || b.options.Part.Of > 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s no sample (%s)", bytesize.Counted(len(empty), "class has", "classes have"), bytesize.Listed(empty, 5))}
}

// closeLists ends the lists of what was left out, and those of a part.
func (b *builder) closeLists() error {
	return errors.Join(b.rejects.close(), b.items.close(), b.objects.close())
}

// wants reports whether to gather a key.
func (b *builder) wants(key string) bool {
	return b.options.Part.Of == 0 || b.mine(key)
}

func (b *builder) report(stage Stage, images int, bytes, total int64) {
	if stage == StagePack && b.source != "" {
		stage = StageIndex
	}
	if b.options.Progress != nil {
		b.options.Progress(Progress{Split: b.split, Stage: stage, Images: images, Bytes: bytes, Total: total, Rejected: b.summary.Rejected})
	}
}

// inFlight is an item in flight: from the input, through a worker, to the writer. Images are used again and again: their number bounds the memory.
type inFlight struct {
	key      string
	reason   string      // why the file is left out, or ""
	location location    // in a spool
	index    int         // in another input
	part     *partReader // of a merge
	bytes    int64       // of a reject of which data is not known
	data     []byte      // the file's content
	label    int32
	fields   []byte            // values of the set's fields
	offset   int64             // of an index, where the image lies in the tar at index,
	pin      shard.IndexObject // or its file
	outside  *shard.Outside    // of a merge
	scratch  encoding.Scratch
	sample   shard.Sample // the encoder's result
	encoded  bool         // load has found it made already
	err      error        // ends the build
	done     chan struct{}
}

// pack takes every item of the input through the workers, in order, into the set.
func (b *builder) pack(ctx context.Context) error {
	n := b.options.Jobs * imagesPerWorker
	free, todo, order := make(chan *inFlight, n), make(chan *inFlight, n), make(chan *inFlight, n)
	for range n {
		free <- &inFlight{done: make(chan struct{}, 1)}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(todo)
		defer close(order)
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case im := <-free:
				im.reset()
				if err := b.input.next(im); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				order <- im // never waits: there are as many places as images
				todo <- im
			}
		}
	})
	for range b.options.Jobs {
		g.Go(func() error {
			worker := encoding.NewWorker(b.options.Encoding)
			for im := range todo {
				if ctx.Err() == nil {
					b.encode(worker, im)
				}
				im.done <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for im := range order {
			<-im.done
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.write(im); err != nil {
				return err
			}
			b.input.done(im)
			free <- im
		}
		return nil
	})
	return g.Wait()
}

// reset makes an image ready for the next item, and keeps its memory unless that is large.
func (im *inFlight) reset() {
	im.reason, im.bytes, im.location, im.err, im.sample, im.encoded = "", 0, location{}, nil, shard.Sample{}, false
	im.data, im.fields, im.pin = im.data[:0], im.fields[:0], shard.IndexObject{}
	if cap(im.data) > keptBytesMax {
		im.data = nil
	}
	if cap(im.fields) > keptBytesMax {
		im.fields = nil
	}
	if cap(im.scratch.Image) > keptBytesMax {
		im.scratch.Image = nil
	}
}

// rejectedBytes is the length of a rejected file, 0 if it was not read.
func (im *inFlight) rejectedBytes() int64 { return max(im.bytes, int64(len(im.data))) }

// encode reads and encodes one image.
func (b *builder) encode(worker encoding.Worker, im *inFlight) {
	if im.reason != "" {
		return
	}
	if err := b.input.load(im); err != nil {
		var reject *source.RejectError
		if errors.As(err, &reject) {
			im.reason = reject.Reason
		} else {
			im.err = err
		}
		return
	}
	if im.encoded {
		return
	}
	im.sample = shard.Sample{Key: im.key, Label: im.label, Image: im.data}
	if err := worker.Encode(&im.sample, &im.scratch); err != nil {
		im.reason = err.Error()
		return
	}
	im.err = b.input.values(im)
	im.sample.Fields = im.fields
	if b.index != nil && im.err == nil {
		im.err = b.index.leaveOut(im)
	}
}

// write appends an image to the set, or to the list of rejects.
func (b *builder) write(im *inFlight) error {
	if im.err != nil {
		return im.err
	}
	sum := &b.summary
	part := b.options.Part.Of > 0
	if part {
		if err := b.listItem(im); err != nil {
			return err
		}
	}
	if im.reason != "" {
		r := Reject{Key: im.key, Bytes: im.rejectedBytes(), Reason: im.reason}
		sum.Reasons.Add(r.Key, r.Reason)
		if sum.Rejected++; len(sum.Rejects) < rejectsShownMax {
			sum.Rejects = append(sum.Rejects, r)
		}
		if err := b.rejects.add(r); err != nil {
			return err
		}
	} else {
		if b.index != nil && !part {
			if err := b.index.add(im); err != nil {
				return err
			}
		}
		sample := im.sample
		if part {
			sample.Outside = nil
		}
		if err := b.writer.Append(sample); err != nil {
			return err
		}
		if im.scratch.Repaired != nil {
			sum.Repaired.Add(im.key, im.scratch.Repaired.Error())
		}
		if sum.Formats == nil {
			sum.Formats = make(map[shard.Format]int)
		}
		sum.Formats[im.sample.Format]++
		sum.ImageBytes += int64(im.sample.ImageBytes())
		sum.AuxBytes += int64(len(im.sample.Aux))
		if label := int(sample.Label); label >= 0 && label < len(b.labelled) {
			b.labelled[label] = true
		}
		b.packed++
		b.narrow.add(&im.sample)
	}
	b.report(StagePack, b.packed+sum.Rejected, sum.ImageBytes+sum.AuxBytes, int64(b.input.count()))
	return nil
}

// conclude ends the list of rejects and reports whether the packed set is worth keeping.
func (b *builder) conclude() error {
	if err := b.closeLists(); err != nil {
		return err
	}
	if b.options.Strict && b.summary.Rejected > 0 {
		return &StrictError{Split: b.split, Rejected: b.summary.Rejected, Rejects: b.summary.Rejects}
	}
	if b.packed == 0 && b.options.Part.Of == 0 {
		msg := fmt.Sprintf("%s has no image", b.input.path())
		if b.summary.Rejected > 0 {
			msg += fmt.Sprintf(": %s read, the first is %s: %s", bytesize.Counted(b.summary.Rejected, "file was", "files were"), b.summary.Rejects[0].Key, b.summary.Rejects[0].Reason)
		}
		return errors.New(msg)
	}
	return nil
}
