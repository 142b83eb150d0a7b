package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// A catalog holds the opened sets that the server found at one moment. It never changes: a reload makes another one, and releases this one
// once nobody new finds it. It holds one use of each of its sets until then, and sessions hold theirs for as long as they read.
//
// Whoever loads the server's catalog may read these fields and the sets' descriptions at any time. To read from a set, acquire it first.
type catalog struct {
	found  shard.Found
	sets   map[string]*openSet
	splits []string         // those of sets, in order
	broken map[string]error // why the other splits that were found cannot be served
}

// An openSet is a set whose files are open while somebody uses it: the catalog, a session, a feeder's connection, or a gallery for a
// moment. Each acquire is followed by one release.
//
// What holds, under mu: users counts these. The files are open while it is above 0. It never rises from 0 again. So
// acquire fails for a set that a reload has dropped, and the new catalog has its successor.
type openSet struct {
	*loader.Dataset
	described status.Set
	bytes     int64
	log       *slog.Logger

	mu    sync.Mutex
	users int
}

// openCatalog opens what was found. What cannot be served is noted. While opening takes long, the log says each second how far it is. The
// caller alone has the catalog until it stores it, and closes it if it does not.
func openCatalog(found shard.Found, log *slog.Logger) *catalog {
	c := &catalog{found: found, sets: map[string]*openSet{}, broken: map[string]error{}}
	for split := range found.Sets {
		set, err := found.Open(split, func(opened, shards int) {
			log.Warn("opening takes a while: the index of every shard is read once", "split", split, "shards", opened, "of", shards)
		})
		var dataset *loader.Dataset
		if err == nil {
			if dataset, err = loader.FromShards(set); err != nil {
				set.Close()
			}
		}
		if err != nil {
			c.broken[split] = fmt.Errorf("split %s: %w", split, err)
			continue
		}
		described := status.Set{ServedSet: describeSet(set), Path: set.Dir(), InStore: set.Store() != ""}
		c.sets[split] = &openSet{Dataset: dataset, described: described, bytes: set.Bytes(), log: log, users: 1}
	}
	debug.FreeOSMemory() // return the memory of opening
	c.splits = slices.Sorted(maps.Keys(c.sets))
	for _, split := range []string{"val", "test"} {
		if c.sets["train"] == nil || c.sets[split] == nil {
			continue
		}
		train, other := c.sets["train"].Manifest().Classes, c.sets[split].Manifest().Classes
		if label, differ := shard.LabelsDiffer(other, train); differ {
			log.Warn("two splits have different classes for the same labels: build them together, or the second with --classes "+
				"and the set of train", "split", split, "label", label, "class", other[label], "classes", len(other),
				"train classes", len(train))
		}
	}
	return c
}

// problems returns what of the data is damaged, each in a sentence that names it and says what to do.
func (c *catalog) problems() (errs []error) {
	for _, d := range c.found.Damaged {
		errs = append(errs, d.Err)
	}
	for _, split := range slices.Sorted(maps.Keys(c.broken)) {
		errs = append(errs, c.broken[split])
	}
	for _, split := range c.splits {
		for _, d := range c.sets[split].Damaged() {
			errs = append(errs, fmt.Errorf("split %s: %w", split, d))
		}
	}
	return errs
}

// absent returns an error for each split that lacks partitions which a rank needs; none if the world is 0.
func (c *catalog) absent(rank, world int) (errs []error) {
	for _, split := range c.splits {
		if world == 0 {
			break
		}
		set := c.sets[split].Set
		p, err := plan.New(plan.Config{Samples: set.Len(), Partitions: set.Partitions(), Rank: rank, World: world, BatchSize: 1})
		if err == nil {
			err = checkPlan(set, p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("split %s: %w", split, err))
		}
	}
	return errs
}

// close releases every set.
func (c *catalog) close() {
	for _, set := range c.sets {
		set.release()
	}
}

// acquire notes another user of a set. It reports false if the last one has released it already.
func (s *openSet) acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

// release ends a use of a set, and closes the set after the last one. It does not wait for storage that may hang: such files are closed by
// another goroutine.
func (s *openSet) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	if err := s.Close(); err != nil {
		s.log.Error("closing a set failed", "err", err)
	}
}

// reload answers once all sets are open, which may take long. It holds up this connection alone, which most often has no session.
func (c *connection) reload(status.Reload) error {
	changes, err := c.server.Reload()
	if err != nil {
		return err
	}
	return c.send(status.Reloaded{Changes: changes})
}

// Reload looks for the sets again, serves what has become whole since, and says what that is. Sessions read the new files from their
// next epoch on. An error means that nothing has changed: a set that is served is damaged now, gone, or has other data or fewer
// partitions.
//
// One runs at a time. It opens the new catalog beside the old one, compares the two, and replaces one by the other in one step. A session
// that is opened meanwhile has a set of either.
func (s *Server) Reload() (changes []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	found := s.cfg.Found
	if s.cfg.Find != nil {
		if found, err = s.cfg.Find(); err != nil {
			return nil, fmt.Errorf("reload: nothing has changed: %w", err)
		}
	}
	before, next := s.catalog.Load(), openCatalog(found, s.log)
	if changes, err = next.changes(before); err != nil {
		next.close()
		return nil, fmt.Errorf("reload: nothing has changed, and the data opened before is still served: %w", err)
	}
	s.catalog.Store(next)
	// The new catalog is stored first: a session that finds a closed one would try for ever to acquire its sets.
	before.close()
	for _, text := range changes {
		s.log.Info("reload: " + text)
	}
	for _, err := range next.problems() {
		s.log.Error("damaged, and not served", "err", err)
	}
	return changes, nil
}

// changes says what is new since the catalog before it, or as an error what is served there and not here. Whatever sessions read or may
// read in a later epoch must be the same in both: the samples and their order, their bytes, the fields, and at least the same partitions.
func (next *catalog) changes(before *catalog) (changes []string, err error) {
	var errs []error
	for _, split := range before.splits {
		old, set := before.sets[split], next.sets[split]
		if set == nil {
			errs = append(errs, cmp.Or(next.broken[split], fmt.Errorf("split %s: %s holds no set of it any more", split, old.Dir())))
			continue
		}
		here, there := set.Manifest(), old.Manifest()
		less := slices.DeleteFunc(set.Missing(), func(p int) bool { return !old.Has(p) })
		switch more := slices.DeleteFunc(old.Missing(), func(p int) bool { return !set.Has(p) }); {
		case here.Fingerprint != there.Fingerprint || here.OtherContent(there) ||
			!here.Encoding.Equal(there.Encoding) || !here.Fields.Equal(there.Fields):
			errs = append(errs, fmt.Errorf("split %s: %s holds other data, %s, and %s is served: restart imgfeed to serve the new data",
				split, set.Dir(), shard.Identity(here.Fingerprint, here.Content), shard.Identity(there.Fingerprint, there.Content)))
		case len(less) > 0:
			errs = append(errs, fmt.Errorf("split %s: %s lacks partitions %v, which were whole", split, set.Dir(), less))
		case len(more) > 0:
			changes = append(changes, fmt.Sprintf("split %s: partitions %v are served now", split, more))
		}
	}
	for _, split := range next.splits {
		if before.sets[split] == nil {
			samples := bytesize.Counted(next.sets[split].Len(), "sample", "samples")
			changes = append(changes, fmt.Sprintf("split %s is served now, %s", split, samples))
		}
	}
	if len(changes) == 0 {
		changes = []string{status.Unchanged}
	}
	return changes, errors.Join(errs...)
}
