// Package pack builds shard sets. It takes the samples of a source, checks that each image can be decoded, encodes it, and writes the
// samples in the order of their keys' hashes. That order is a shuffle that depends on the seed alone.
//
// # The road of a sample
//
//	transport.Item ──► item ──────────► inFlight ────────► the set, or:
//	as Walk            its position in  an image's         the list of rejects
//	gives it           the set's order  content, label.
//
// An [input] lists its items, then hands them out in order. There are three: files in folders and the samples of another set
// (input.go), files in tars (spool.go), and the parts that several machines have packed (merge.go). Workers read and encode the
// images in flight, and one goroutine gives the results to the set in order again (builder.go). So the result is the same for any
// order of names in the file system, and for any number or speed of workers.
//
// A tar is read once, from front to back. Its samples come in the tar's order, so they are first spread over spool files in the
// output's file system, one for each range of hashes. Then range after range is sorted and takes the steps above. A spool file is
// unlinked as soon as it is open, and closed when its range is done. So the disk has to hold the tar's size once, and nothing
// remains, however the process ends.
//
// Memory holds some images for each worker, and the items, with 32 bytes and the key each: of folders and sets all of them, of tars
// those of one range.
package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// Options say how to build a set.
type Options struct {
	Partitions int               // partitions; 0 means 1
	Seed       uint64            // seed of the order
	ShardBytes int64             // the size of a shard; 0 means shard.ShardBytesDefault
	Jobs       int               // workers; 0 means one for each CPU
	Strict     bool              // fail when a file cannot be read as an image
	Replace    bool              // replace an existing set
	Index      bool              // make an index: the images stay where they are
	Part       Part              // pack this share only, for Merge; of BuildAll only
	Encoding   encoding.Encoding // how images are stored; nil means the files' own bytes
	Select     dataset.Selection // chooses samples; the options of the source must have it too
	// Warn gets probable mistakes before anything is packed; may be nil.
	Warn func(string)
	// Progress is called often, from one goroutine at a time; may be nil.
	Progress func(Progress)

	splits     []string                     // splits built together
	targets    string                       // digest of the options of boxes and masks
	listed     func(classes []string) error // gets the classes before anything is packed, and may end the build; may be nil
	spoolBytes int64                        // size of a spool file; 0 means spoolFileBytesDefault, tests set less
}

func (o *Options) fill() {
	o.spoolBytes = cmp.Or(o.spoolBytes, spoolFileBytesDefault)
	o.Partitions = cmp.Or(o.Partitions, 1)
	o.ShardBytes = cmp.Or(o.ShardBytes, shard.ShardBytesDefault)
	o.Jobs = cmp.Or(max(o.Jobs, 0), runtime.GOMAXPROCS(0))
	if o.Encoding == nil {
		o.Encoding = registry.Default()
	}
}

// Stage names a step of a build.
type Stage string

// The stages of a build.
const (
	StageList Stage = "listing" // the names in folders; Total is unknown
	StageRead Stage = "reading" // tars, into the spool; counted in bytes of the tars
	StagePack Stage = "packing" // images, into the set; counted in images
)

// Progress says how far a build is.
type Progress struct {
	Split    string
	Stage    Stage
	Images   int   // so far in this stage
	Bytes    int64 // size of the images, so far in this stage
	Rejected int
	Total    int64 // what Images or (StageRead) Bytes will be in the end; 0 when unknown. For compressed tars it is a guess.
}

// A Summary describes a finished build.
type Summary struct {
	Split       string
	Output      string
	Manifest    *shard.Manifest
	Kept        bool // a finished set of the same options that was there already; the rest is zero
	ImageBytes  int64
	AuxBytes    int64
	OutputBytes int64
	Formats     map[shard.Format]int
	Rejected    int
	Reasons     Reasons // why they were rejected, of all
	Repaired    Reasons // damaged images that were packed, since libjpeg repairs them and so does our decoder
	Notes       []string
}

// Build writes the set of a split to the folder out, which appears in one step. After an error, or when ctx ends, nothing of it remains.
func Build(ctx context.Context, split *dataset.Split, out string, o Options) (Summary, error) {
	root, objects := "", (*objectFiles)(nil)
	if o.Index {
		root = transport.ShownPath(split.Root())
		files, err := storage.At(root)
		if err = cmp.Or(err, checkIndexable(root)); err != nil {
			return Summary{}, err
		}
		objects = &objectFiles{split: split, files: files, numbers: map[string]int{}}
	}
	var in input = &spoolInput{split: split, objects: objects}
	if !split.Streamed() {
		in = &folderInput{split: split, objects: objects, reasons: make(map[string]string)}
	}
	b := newBuilder(split.Name, split.Path, split.Fields(), in, o)
	b.source, b.byContent = root, split.TakenByContent
	if storage.IsRemote(root) {
		b.options.Jobs = max(b.options.Jobs, remoteReads)
	}
	if o.Part.Of > 0 {
		b.part = &partChoice{part: o.Part, seed: o.Seed, split: split}
		b.built[builtPart] = o.Part.String()
		b.built[builtSplits] = strings.Join(o.splits, ",")
	}
	sum, err := b.build(ctx, out)
	sum.Notes = append(split.Notes(), sum.Notes...)
	return sum, err
}

// Repack writes the samples of an open set to the folder out in another encoding, in other partitions or in another order. The result
// equals, byte for byte, that of [Build] on the set's original files with the same options. The set must keep the original
// files, and all of its partitions must be here.
func Repack(ctx context.Context, set *shard.Set, out string, o Options) (Summary, error) {
	m := set.Manifest()
	stored, err := registry.Open(m.Encoding)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", set.Dir(), err)
	}
	switch missing := set.Missing(); {
	case !stored.HoldsOriginals():
		return Summary{}, fmt.Errorf("%s has the encoding %v, which does not keep the original files: repack the set that it was made from",
			set.Dir(), stored)
	case len(missing) > 0:
		return Summary{}, fmt.Errorf("repacking needs all of %s: %w", set.Dir(), set.Absence(missing[0]))
	case SameFile(set.Dir(), out):
		return Summary{}, fmt.Errorf("the output is the set that is read, %s: give another path with -o", set.Dir())
	}
	return newBuilder(m.Split, set.Dir(), m.Fields, &setInput{set: set, stored: stored}, o).build(ctx, out)
}

// SameFile reports whether two paths are of the same file or folder.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

var errTaken = errors.New("built with other options")

// taken says that the output is a finished set that was built with other options.
func taken(out string) error {
	remedy := "--force replaces it"
	if storage.IsRemote(out) {
		remedy = "in a bucket none is replaced: remove it, or choose another path"
	}
	return fmt.Errorf("%s is a finished shard set, %w: %s", out, errTaken, remedy)
}

// A Task is a split and the folder for its set.
type Task struct {
	Split  *dataset.Split
	Output string
}

// Tasks says where the sets of the splits of one source go. A single set goes to out; several go to folders in
// out named after the splits. If out is empty, they go beside the splits.
func Tasks(splits []*dataset.Split, out string) []Task {
	var tasks []Task
	for _, s := range splits {
		switch {
		case out == "":
			tasks = append(tasks, Task{s, s.Output})
		case len(splits) == 1:
			tasks = append(tasks, Task{s, out})
		default:
			tasks = append(tasks, Task{s, storage.Join(out, s.Name)})
		}
	}
	return tasks
}

// BuildAll builds the splits of one source, one after the other, so that their labels agree: the classes of the first are those of
// the others. It finds paths already in use before it reads anything. It keeps sets that an earlier run finished with the same
// options, and builds the others; done is called after each.
func BuildAll(ctx context.Context, tasks []Task, o Options, done func(Summary)) error {
	o.fill()
	for _, t := range tasks {
		if slices.Contains(o.splits, t.Split.Name) {
			return fmt.Errorf("%s and another split of it are both called %s: build them one at a time, each with -o", t.Split.Path,
				t.Split.Name)
		}
		o.splits = append(o.splits, t.Split.Name)
		o.targets = t.Split.Options.Targets.Digest()
	}
	kept := make([]*shard.Manifest, len(tasks))
	for i, t := range tasks {
		var err error
		if kept[i], err = o.checkOutput(t); err != nil {
			return err
		}
	}
	var classes []string
	for i, t := range tasks {
		if classes != nil {
			t.Split.ExpectClasses(classes)
		}
		if m := kept[i]; m != nil {
			if m.Partitions != o.Partitions || m.Seed != o.Seed || !m.Encoding.Equal(o.Encoding.Stored()) ||
				!maps.Equal(wholeBuilt(m.Built), o.built()) || !m.Fields.Equal(t.Split.Fields()) {
				return taken(t.Output)
			}
			classes = m.Classes
			done(Summary{Split: t.Split.Name, Output: t.Output, Manifest: m, Kept: true})
			continue
		}
		o.listed = func(classes []string) error {
			if warning := t.Split.SiblingClasses(classes); warning != "" && len(tasks) == 1 && o.Warn != nil {
				o.Warn(warning)
			}
			return checkOthers(ctx, tasks[i+1:], kept[i+1:], classes)
		}
		s, err := Build(ctx, t.Split, t.Output, o)
		if err != nil {
			return err
		}
		classes = s.Manifest.Classes
		done(s)
	}
	return nil
}

// checkOthers lists the splits after the first, unless that takes reading images, so that classes that disagree are found early.
func checkOthers(ctx context.Context, tasks []Task, kept []*shard.Manifest, classes []string) error {
	for i, t := range tasks {
		if t.Split.Streamed() || kept[i] != nil {
			continue
		}
		again := t.Split.Reopen()
		again.ExpectClasses(classes)
		if err := again.Walk(ctx, func(transport.Item) error { return ctx.Err() }); err != nil {
			return err
		}
	}
	return nil
}

// checkOutput refuses an output inside its own source, and returns the manifest of a set already there and kept.
func (o *Options) checkOutput(t Task) (*shard.Manifest, error) {
	out, err := filepath.Abs(t.Output)
	if err != nil {
		return nil, err
	}
	if !storage.IsRemote(t.Output) && liesIn(out, t.Split.Path) {
		return nil, fmt.Errorf("the output %s lies in the source %s: give another path with -o", t.Output, t.Split.Path)
	}
	if o.Replace {
		return nil, nil
	}
	m, err := shard.ReadManifest(t.Output)
	if errors.Is(err, shard.ErrNotSet) {
		return nil, nil // The writer refuses other files there.
	}
	return m, err
}

// liesIn reports whether a path is that of a file or folder, or lies below it. The path, and folders around it, may be missing.
func liesIn(path, folder string) bool {
	for {
		if whole, err := filepath.EvalSymlinks(path); err == nil {
			path = whole
		}
		switch above := filepath.Dir(path); {
		case SameFile(path, folder):
			return true
		case above == path:
			return false
		default:
			path = above
		}
	}
}

const builtShardBytes = "shard_bytes" // an entry in a manifest's Built, for Merge

// built are the options that a set's content depends on, for its manifest.
func (o *Options) built() map[string]string {
	built := map[string]string{builtShardBytes: strconv.FormatInt(o.ShardBytes, 10)}
	if o.Index {
		built = map[string]string{"index": "true"}
	}
	if digest := o.Select.Digest(); digest != "" {
		built["select"] = digest
	}
	if o.targets != "" {
		built["targets"] = o.targets
	}
	return built
}
