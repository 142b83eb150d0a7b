package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/source"
)

// Originals are where a repair takes samples from: a split of a source, as a build takes it, or another set.
type Originals struct {
	Split *source.Split
	Set   *shard.Set
}

// RepairOptions say how to repair a set.
type RepairOptions struct {
	Jobs     int // shards read, and images encoded, at a time; 0 means one for each CPU
	Problem  func(error)
	Verify   func(shard.VerifyProgress)
	Progress func(Progress)
}

// A RepairReport says what became of a set's damage.
type RepairReport struct {
	Damaged int      // shards
	Whole   []string // of them, those that are as they were built again, relative to the set
	Records int      // that were put back
	Left    []error  // what could not be repaired
}

// repairPlace is where in a set a sample belongs.
type repairPlace struct {
	shard  string // its path
	record int
}

// repair is one under way.
type repair struct {
	dir      string
	manifest *shard.Manifest
	damaged  map[string]shard.ShardDamage // by path
	set      *shard.Repair
	open     map[string]*shard.ShardRepair
	wanted   map[string]repairPlace // by key
	left     map[string]int         // samples that are still to come, by shard
	report   RepairReport
	told     func(Stage, int, int64, int64)
}

// Repair verifies the set in dir, takes damaged samples from the originals and makes the damaged shards anew. The manifest's checksums prove that
// these are, to the byte, those that the build wrote. Shards that cannot be repaired stay as they were, and the report names them. Repair may be
// interrupted at any moment.
func Repair(ctx context.Context, dir string, from Originals, o RepairOptions) (RepairReport, error) {
	set, err := shard.NewRepair(dir)
	if err != nil {
		return RepairReport{}, err
	}
	defer set.Close()
	m, err := shard.ReadManifest(dir)
	if err != nil {
		return RepairReport{}, err
	}
	found, err := shard.Verify(ctx, dir, shard.VerifyOptions{Jobs: o.Jobs, Problem: o.Problem, Progress: o.Verify})
	if err != nil {
		return RepairReport{}, err
	}
	r := &repair{dir: dir, manifest: m, set: set, damaged: map[string]shard.ShardDamage{}, open: map[string]*shard.ShardRepair{}, left: map[string]int{}}
	r.report.Damaged = len(found.Damaged)
	if len(found.Damaged) == 0 {
		if found.Problems > 0 {
			return r.report, fmt.Errorf("%s: its shards are as they were written, and are wrong all the same: build the set again", dir)
		}
		return r.report, nil
	}
	b, err := r.builder(from, o)
	if err != nil {
		return r.report, err
	}
	defer b.input.close()
	if err := r.places(ctx, found.Damaged, from); err != nil {
		return r.report, err
	}
	b.wanted = r.wanted
	defer r.abort()
	err = r.run(ctx, b)
	return r.report, err
}

// builder takes samples through the steps of a build, up to the writer.
func (r *repair) builder(from Originals, o RepairOptions) (*builder, error) {
	stored, err := registry.Open(r.manifest.Encoding)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.dir, err)
	}
	var in input
	var fields shard.Fields
	if from.Set != nil {
		other := from.Set.Manifest()
		same := reflect.DeepEqual(other.Encoding, r.manifest.Encoding)
		kept, err := registry.Open(other.Encoding)
		if err == nil && !same && !kept.HoldsOriginals() {
			err = fmt.Errorf("it has the encoding %v, which does not keep the original files, and %s has %v: take the originals", kept, r.dir, stored)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from.Set.Dir(), err)
		}
		in, fields = &setInput{set: from.Set, stored: kept, asStored: same}, other.Fields
	} else {
		in, fields = newInput(from.Split), from.Split.Fields()
	}
	if !r.manifest.Fields.Equal(fields) {
		return nil, fmt.Errorf("%s has the fields %v, and %s gives %v: say --field as for the build", r.dir, r.manifest.Fields, in.path(), fields)
	}
	b := newBuilder(r.manifest.Split, in, Options{Seed: r.manifest.Seed, Jobs: o.Jobs, Encoding: stored, Progress: o.Progress})
	b.sink, b.scratch, r.told = r.take, r.set.Scratch, b.report
	return b, nil
}

// places returns where each sample to restore belongs.
func (r *repair) places(ctx context.Context, damaged []shard.ShardDamage, from Originals) error {
	r.wanted = map[string]repairPlace{}
	lost := map[string]shard.ShardDamage{}
	for _, d := range damaged {
		r.damaged[d.Path] = d
		if d.Lost {
			lost[d.Path] = d
			continue
		}
		r.left[d.Path] = len(d.Keys)
		for i, key := range d.Keys {
			r.wanted[key] = repairPlace{d.Path, d.Records[i]}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	items, err := r.order(ctx, from)
	if err != nil {
		return err
	}
	start := map[int]int{} // of a partition's next shard
	for _, info := range r.manifest.Shards {
		first := start[info.Partition]
		start[info.Partition] += info.Samples
		if _, ok := lost[info.Path]; !ok {
			continue
		}
		r.left[info.Path] = info.Samples
		for j := range info.Samples {
			r.wanted[items[(first+j)*r.manifest.Partitions+info.Partition].key] = repairPlace{info.Path, j}
		}
	}
	return nil
}

// order lists the samples of the originals as the set has them: all but those that the build left out.
func (r *repair) order(ctx context.Context, from Originals) ([]item, error) {
	out, err := r.leftOut()
	if err != nil {
		return nil, err
	}
	var items []item
	add := func(key, reason string) {
		if reason == "" && !out[key] { // with a reason it was never taken; a name that is no UTF-8 stands as another in the list
			items = append(items, newItem(r.manifest.Seed, key, 0))
		}
	}
	if from.Set != nil {
		for i := range from.Set.Len() {
			key, err := from.Set.Key(i)
			if err != nil {
				return nil, fmt.Errorf("a shard of %s is lost, and only all keys of the originals say which samples it had: %w", r.dir, err)
			}
			add(key, "")
		}
	} else {
		from.Split.ExpectClasses(r.manifest.Classes)
		if err := from.Split.Again().Walk(ctx, func(it source.Item) error { add(it.Key, it.Reason); return ctx.Err() }); err != nil {
			return nil, err
		}
	}
	if len(items) != r.manifest.Samples {
		return nil, fmt.Errorf("a shard of %s is lost, and only all keys of the originals say which samples it had: there are %d, and the set was built of %d",
			r.dir, len(items), r.manifest.Samples)
	}
	return items, sortItems(r.dir, items)
}

// leftOut returns the keys that the build left out, from the lists that lie in the set.
func (r *repair) leftOut() (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range []string{shard.RejectsName, shard.DuplicatesName} {
		if err := ReadLeftOut(r.dir, name, func(r Reject) { out[r.Key] = true }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// run takes the samples to their places, and finishes the shards.
func (r *repair) run(ctx context.Context, b *builder) error {
	if err := b.input.gather(ctx, b); err != nil {
		return err
	}
	if err := b.pack(ctx); err != nil {
		return err
	}
	for _, path := range r.paths() {
		if err := r.finish(path); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// paths returns the damaged shards that are not finished, in order.
func (r *repair) paths() []string {
	var paths []string
	for path := range r.damaged {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, cmp.Compare[string])
	return paths
}

// shard returns the shard at path, being made anew.
func (r *repair) shard(path string) (*shard.ShardRepair, error) {
	if r.open[path] == nil {
		s, err := r.set.Shard(r.damaged[path])
		if err != nil {
			return nil, err
		}
		r.open[path] = s
	}
	return r.open[path], nil
}

// take puts back one sample.
func (r *repair) take(im *inFlight) error {
	place := r.wanted[im.key]
	if _, ok := r.damaged[place.shard]; !ok {
		return nil // given up
	}
	err := im.err
	if err == nil && im.reason != "" {
		err = fmt.Errorf("%s: %s", im.key, im.reason)
	}
	var s *shard.ShardRepair
	if err == nil {
		if s, err = r.shard(place.shard); err != nil {
			return err
		}
		err = s.Put(place.record, im.sample)
	}
	var foreign *shard.ForeignError
	switch {
	case err == nil:
		r.report.Records++
		r.told(StagePack, r.report.Records, 0, int64(len(r.wanted)))
	case r.damaged[place.shard].Lost:
		r.giveUp(place.shard, err)
		return nil
	case im.err != nil || im.reason != "" || errors.As(err, &foreign):
		r.report.Left = append(r.report.Left, fmt.Errorf("%s: record %d: %w", filepath.Join(r.dir, place.shard), place.record, err))
	default:
		return err // of the file system that is written to
	}
	r.left[place.shard]--
	if r.left[place.shard] == 0 {
		return r.finish(place.shard)
	}
	return nil
}

// giveUp leaves a lost shard as it is.
func (r *repair) giveUp(path string, err error) {
	r.report.Left = append(r.report.Left, fmt.Errorf("%s stays as it was: %w", filepath.Join(r.dir, path), err))
	if s := r.open[path]; s != nil {
		s.Abort()
	}
	delete(r.open, path)
	delete(r.damaged, path)
}

// finish ends a shard of which no sample is still to come.
func (r *repair) finish(path string) error {
	d := r.damaged[path]
	if n := r.left[path]; n > 0 {
		err := fmt.Errorf("%d of its samples are not among the originals", n)
		if d.Lost {
			r.giveUp(path, err)
			return nil
		}
		r.report.Left = append(r.report.Left, fmt.Errorf("%s: %w", filepath.Join(r.dir, path), err))
	}
	s, err := r.shard(path)
	if err != nil {
		return err
	}
	delete(r.open, path)
	delete(r.damaged, path)
	whole, err := s.Finish()
	if foreign := new(shard.ForeignError); errors.As(err, &foreign) {
		r.report.Left = append(r.report.Left, err)
		return nil
	}
	if whole {
		r.report.Whole = append(r.report.Whole, path)
	}
	return err
}

// abort removes unfinished files.
func (r *repair) abort() {
	for _, s := range r.open {
		s.Abort()
	}
}
