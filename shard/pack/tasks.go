package pack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

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

// checkOthers lists the splits after the first one, where that takes no reading of images. So classes that do not agree with its own
// are known before it is packed.
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

// builtShardBytes is an entry in a manifest's Built, for Merge.
const builtShardBytes = "shard_bytes"

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
