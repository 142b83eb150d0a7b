package imgshard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
)

// openSet opens the one set at path: path itself, or the only set in it. It reports each second on stderr how many shards are open.
func openSet(cmd *cobra.Command, path string) (*shard.Set, error) {
	return cliutil.Interruptible(cmd.Context(), func() (*shard.Set, error) {
		found, err := shard.FindAll(path)
		if err = cmp.Or(err, found.Err()); err != nil {
			return nil, err
		}
		splits, dirs := slices.Sorted(maps.Keys(found.Sets)), slices.Sorted(maps.Values(found.Sets))
		if len(dirs) > 1 {
			return nil, cliutil.Usagef("%s holds %d sets, choose one: %s", path, len(dirs), strings.Join(dirs, ", "))
		}
		set, err := found.Open(splits[0], func(opened, shards int) {
			if !quiet {
				total := bytesize.Counted(shards, "shard", "shards")
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s of %s opened\n", dirs[0], bytesize.Grouped(opened), total)
			}
		})
		if err == nil && set.Err() != nil {
			set.Close()
			return nil, set.Err()
		}
		return set, err
	})
}

// setFacts are the facts about a set in every report in JSON.
type setFacts struct {
	Split       string         `json:"split"`
	Path        string         `json:"path"`
	Data        string         `json:"data"` // shard.Identity
	Fingerprint string         `json:"fingerprint"`
	Content     string         `json:"content,omitempty"`
	Encoding    shard.Encoding `json:"encoding"`
	Samples     int            `json:"samples"` // total of the set
	Classes     int            `json:"classes"`
	Partitions  int            `json:"partitions"`
	Shards      int            `json:"shards"`
	Fields      shard.Fields   `json:"fields,omitempty"`
}

func factsOf(m *shard.Manifest, path string) setFacts {
	return setFacts{
		m.Split, path, shard.Identity(m.Fingerprint, m.Content), m.Fingerprint, m.Content, registry.Named(m.Encoding),
		m.Samples, len(m.Classes), m.Partitions, len(m.Shards), m.Fields,
	}
}

// eachEntry calls do for every sample on this machine, in the order of their index, with the sample's entry in the shard's index.
func eachEntry(ctx context.Context, set *shard.Set, do func(i int, e *shard.Entry) error) error {
	for i := range set.Len() {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !set.Has(i % set.Partitions()) {
			continue
		}
		e, err := set.Entry(i)
		if err == nil {
			err = do(i, &e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fieldValues reads the values of a sample's fields.
func fieldValues(set *shard.Set, i int) ([][]byte, error) {
	record, _, err := set.Read(i, nil)
	if err != nil {
		return nil, err
	}
	values, err := set.Manifest().Fields.Split(record.Fields, nil)
	if err != nil {
		return nil, set.Corrupt(i, err)
	}
	return values, nil
}

// findSample returns the index of the sample with a key, or else the index that a number is. A note on stderr says when both are there.
func findSample(cmd *cobra.Command, set *shard.Set, name string) (int, error) {
	index, err := strconv.Atoi(name)
	isIndex := err == nil && strconv.Itoa(index) == name // 007 can only be a key
	found, err := set.Find(name)
	switch {
	case err == nil && isIndex && index < set.Len() && found != index:
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s is the key of sample %d; --index %[1]s takes the sample with this index\n", name, found)
	case err != nil && isIndex:
		if !errors.Is(err, shard.ErrNotFound) {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s is taken for an index, as the keys cannot all be read: %v\n", name, err)
		}
		return checkIndex(set, index)
	}
	return found, err
}

// checkIndex refuses an index outside a set.
func checkIndex(set *shard.Set, index int) (int, error) {
	if index < 0 || index >= set.Len() {
		return 0, fmt.Errorf("index %d: %w: want 0 to %d", index, shard.ErrNotFound, set.Len()-1)
	}
	return index, nil
}
