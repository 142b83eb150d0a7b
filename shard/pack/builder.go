package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	imagesPerWorker = 8       // how many images are in flight for each worker, so that a large one holds up nobody
	keptBytesMax    = 4 << 20 // the largest buffer kept for the next image
)

// A builder takes every item of its input through the workers into the set or the list of rejects.
type builder struct {
	options   *Options
	split     string
	path      string       // the source's, for messages
	fields    shard.Fields // the samples' fields
	input     input
	built     map[string]string     // options for the manifest
	byContent func(key string) bool // see packed.byContent
	source    string                // URL or folder of an index's images
	part      *partChoice           // nil: a whole set

	writer  *shard.SetWriter
	rejects *rejectList
	set     *packed
	dropped int // samples that the options leave out for their targets
}

func newBuilder(split, path string, fields shard.Fields, in input, o Options) *builder {
	o.fill()
	return &builder{options: &o, split: split, path: path, fields: fields, input: in, built: o.built()}
}

// open starts the set at the folder out.
func (b *builder) open(out string) (err error) {
	o := b.options
	if i := slices.IndexFunc(b.fields, shard.Field.Target); i >= 0 && !o.Encoding.HoldsOriginals() {
		return fmt.Errorf("%s has %s, which lie on the stored images, and %v may resize them: pack it with the encoding original or "+
			"coefficients, and leave the sizes to the transform", b.path, b.fields[i].Type, o.Encoding)
	}
	b.writer, err = shard.NewSetWriter(out, shard.SetOptions{
		Split: b.split, Encoding: o.Encoding.Stored(), Partitions: o.Partitions, Seed: o.Seed, ShardBytes: o.ShardBytes,
		Built: b.built, Replace: o.Replace, Fields: b.fields, Source: b.source,
	})
	if err != nil {
		return err
	}
	b.rejects = &rejectList{writer: b.writer, strict: o.Strict}
	b.set = &packed{writer: b.writer, byContent: b.byContent, summary: Summary{Formats: make(map[shard.Format]int)}}
	return nil
}

// build writes the set to the folder out, from the first file to the last.
func (b *builder) build(ctx context.Context, out string) (sum Summary, err error) {
	if err := b.open(out); err != nil {
		return sum, err
	}
	defer func() {
		if cleanup := b.writer.Abort(); err != nil {
			err = errors.Join(err, cleanup)
		}
	}()
	defer b.rejects.close()
	defer b.input.close()
	if err := b.gather(ctx); err != nil {
		return sum, err
	}
	if err := b.run(ctx); err != nil {
		return sum, err
	}
	if err := b.rejects.close(); err != nil {
		return sum, err
	}
	if err := cmp.Or(b.check(), ctx.Err()); err != nil {
		return sum, err
	}
	m, err := b.writer.Commit()
	if err != nil {
		return sum, err
	}
	sum = b.set.summary
	sum.Split, sum.Output, sum.Manifest = b.split, out, m
	sum.Rejected, sum.Reasons = b.rejects.count, b.rejects.reasons
	if b.part == nil {
		sum.Notes = b.set.emptyClasses(m.Classes)
	}
	if keys := b.set.unnamed; len(keys) > 0 {
		sum.Notes = append(sum.Notes, fmt.Sprintf("%s: packed by content (%s); torchvision's ImageFolder leaves them out; %v",
			bytesize.Counted(len(keys), "image has no image's extension", "images have no image's extension"),
			bytesize.Listed(keys, 5), remedy.Exclude))
	}
	for _, s := range m.Shards {
		if s.Index != nil {
			s.Bytes = s.Index.Bytes
		}
		sum.OutputBytes += s.Bytes
	}
	return sum, nil
}

func (b *builder) gather(ctx context.Context) error {
	classes, err := b.input.gather(ctx, b)
	if err != nil {
		return err
	}
	if b.part != nil {
		b.built[builtListing] = b.part.listing() // the writer encodes the map in Commit
	}
	b.set.labelled = make([]bool, len(classes))
	if err := b.writer.SetClasses(classes); err != nil || b.options.listed == nil {
		return err
	}
	return b.options.listed(classes)
}

// wants reports whether to gather an item.
func (b *builder) wants(it *transport.Item) (bool, error) {
	if b.part == nil {
		return true, nil
	}
	return b.part.takes(it)
}

func (b *builder) report(stage Stage, images int, bytes, total int64) {
	if b.options.Progress != nil {
		b.options.Progress(Progress{Split: b.split, Stage: stage, Images: images, Bytes: bytes, Total: total, Rejected: b.rejects.count})
	}
}

// inFlight is an item in flight: from the input, through a worker, to the writer. Items are reused, so their number bounds the memory.
type inFlight struct {
	key     string
	reason  string // why the file is left out, or ""
	dropped bool   // the options leave it out
	spooled spooled
	index   int    // index of the sample in another set
	bytes   int64  // size of a reject without data, 0 if it was not read
	data    []byte // the file's content
	label   int32
	fields  []byte            // values of the set's fields
	object  shard.IndexObject // file that holds the image alone, for an index
	scratch encoding.Scratch
	sample  shard.Sample // the encoder's result; the input sets Outside
	encoded bool         // load has found it made already
	err     error        // ends the build
	done    chan struct{}
}

// run takes all images through the workers, and writes them in order.
func (b *builder) run(ctx context.Context) error {
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
				order <- im // never waits: there are as much room as images
				todo <- im
			}
		}
	})
	for range b.options.Jobs {
		g.Go(func() error {
			worker := encoding.NewWorker(b.options.Encoding)
			for im := range todo {
				if ctx.Err() == nil {
					b.load(worker, im)
				}
				im.done <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for im := range order {
			<-im.done
			if err := cmp.Or(ctx.Err(), im.err); err != nil {
				return err
			}
			if err := b.write(im); err != nil {
				return err
			}
			free <- im
		}
		return nil
	})
	return g.Wait()
}

// reset makes an image ready for the next item, and keeps its memory unless it is large.
func (im *inFlight) reset() {
	kept := func(buf []byte) []byte {
		if cap(buf) > keptBytesMax {
			return nil
		}
		return buf[:0]
	}
	*im = inFlight{
		data: kept(im.data), fields: kept(im.fields), done: im.done,
		scratch: encoding.Scratch{Image: kept(im.scratch.Image), Aux: kept(im.scratch.Aux)},
	}
}

// load reads an image, and encodes it unless the input has the sample.
func (b *builder) load(worker encoding.Worker, im *inFlight) {
	if im.reason != "" {
		return
	}
	if err := b.input.load(im); err != nil {
		if reject, ok := errors.AsType[*transport.RejectError](err); ok {
			im.reason = reject.Reason
		} else {
			im.err = err
		}
		return
	}
	if im.dropped {
		im.err = nil
	}
	if im.encoded || im.dropped {
		return
	}
	im.sample = shard.Sample{Key: im.key, Label: im.label, Image: im.data, Fields: im.fields, Outside: im.sample.Outside}
	if err := worker.Encode(&im.sample, &im.scratch); err != nil {
		im.reason, im.err = err.Error(), nil
		return
	}
	if im.sample.Outside != nil {
		im.sample.Image = nil
	}
}

func (b *builder) write(im *inFlight) error {
	if im.dropped {
		b.dropped++
	} else {
		add := b.set.add
		if im.reason != "" {
			add = b.rejects.add
		}
		if err := add(im); err != nil {
			return err
		}
		sum := &b.set.summary
		b.report(StagePack, b.set.count+b.rejects.count, sum.ImageBytes+sum.AuxBytes, int64(b.input.count()))
	}
	b.input.done(im)
	return nil
}

// check reports whether the packed set is worth keeping.
func (b *builder) check() error {
	r := b.rejects
	if b.set.count > 0 || b.part != nil {
		return nil
	}
	if missed := b.options.Select.Missed(); missed != "" && r.count == 0 {
		return errors.New(missed)
	}
	msg := fmt.Sprintf("%s has no image", b.path)
	if r.count > 0 {
		most := r.reasons.List()[0]
		msg += fmt.Sprintf(": %s read, such as %s: %s", bytesize.Counted(r.count, "file was", "files were"), most.Example, most.Reason)
	}
	if b.dropped > 0 {
		msg += fmt.Sprintf(" with objects, and --drop-empty leaves out the others (%d)", b.dropped)
	}
	return errors.New(msg)
}

// packed is the images of the set, and their sums.
type packed struct {
	writer   *shard.SetWriter
	summary  Summary
	count    int
	labelled []bool // classes with a packed sample
	// byContent says that a key is not that of an image; nil: it is not asked. unnamed are such keys.
	byContent func(key string) bool
	unnamed   []string
}

func (s *packed) add(im *inFlight) (err error) {
	if im.object.Path != "" {
		if im.sample.Outside.Object, err = s.writer.AddObject(im.object); err != nil {
			return err
		}
	}
	if err := s.writer.Append(im.sample); err != nil {
		return err
	}
	sum := &s.summary
	if im.scratch.Repaired != nil {
		sum.Repaired.Add(im.key, im.scratch.Repaired.Error())
	}
	sum.Formats[im.sample.Format]++
	sum.AuxBytes += int64(len(im.sample.Aux))
	sum.ImageBytes += int64(im.sample.ImageBytes())
	if label := int(im.sample.Label); label >= 0 && label < len(s.labelled) {
		s.labelled[label] = true
	}
	if s.byContent != nil && s.byContent(im.key) {
		s.unnamed = append(s.unnamed, im.key)
	}
	s.count++
	return nil
}

// emptyClasses names the classes without a packed sample.
func (s *packed) emptyClasses(classes []string) []string {
	var empty []string
	for label, labelled := range s.labelled {
		if !labelled {
			empty = append(empty, classes[label])
		}
	}
	if len(empty) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s no sample (%s)", bytesize.Counted(len(empty), "class has", "classes have"), bytesize.Listed(empty, 5))}
}
