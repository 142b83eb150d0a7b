package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// A catalog holds the sets that the server found at one moment, opened. It never changes: a reload makes another one, which takes
// over the sets that have stayed the same.
type catalog struct {
	found  shard.Found
	sets   map[string]*openSet
	splits []string         // those of sets, in order
	broken map[string]error // why the other splits that were found cannot be served
}

// An openSet is a set that is closed when nobody needs it any more: neither the catalog nor a session.
type openSet struct {
	*shard.Set
	described status.ServedSet
	bytes     int64
	mu        sync.Mutex
	users     int
}

// openCatalog opens what was found. What cannot be served is noted. While opening takes long, the log says each second how far it is.
func openCatalog(found shard.Found, log *slog.Logger) *catalog {
	found.Sets = maps.Clone(found.Sets) // a reload changes it
	c := &catalog{found: found, sets: map[string]*openSet{}, broken: map[string]error{}}
	for split := range found.Sets {
		set, err := found.Open(split, func(opened, shards int) {
			log.Warn("opening takes long: the index of every shard is read once", "split", split, "shards", opened, "of", shards)
		})
		if err != nil {
			c.broken[split] = fmt.Errorf("split %s: %w", split, err)
			continue
		}
		c.sets[split] = &openSet{Set: set, described: describeSet(set), bytes: set.Bytes(), users: 1}
	}
	debug.FreeOSMemory() // return the memory of opening
	c.splits = slices.Sorted(maps.Keys(c.sets))
	for _, split := range []string{"val", "test"} {
		if c.sets["train"] == nil || c.sets[split] == nil {
			continue
		}
		train, other := c.sets["train"].Manifest().Classes, c.sets[split].Manifest().Classes
		if label, differ := shard.LabelsDiffer(other, train); differ {
			log.Warn("two splits have other classes for the same labels: build them together, or the second with --classes and the set of train",
				"split", split, "label", label, "class", other[label], "classes", len(other), "train classes", len(train))
		}
	}
	return c
}

// problems returns what of the data is damaged, each in a sentence that names it and says what to do.
func (c *catalog) problems() []error {
	var errs []error
	for _, d := range c.found.Damaged {
		errs = append(errs, d.Err)
	}
	for _, split := range slices.Sorted(maps.Keys(c.found.Sets)) {
		if err := c.broken[split]; err != nil {
			errs = append(errs, err)
		}
		if set := c.sets[split]; set != nil {
			for _, d := range set.Damaged() {
				errs = append(errs, fmt.Errorf("split %s: %w", split, d))
			}
		}
	}
	return errs
}

// close lets go of every set.
func (c *catalog) close() error {
	var errs []error
	for _, set := range c.sets {
		errs = append(errs, set.drop())
	}
	return errors.Join(errs...)
}

// hold notes another user of a set. It reports false when the last one has let go of it already.
func (s *openSet) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

// drop lets go of a set, and closes it if nobody else needs it.
func (s *openSet) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	return s.Close()
}

// serves reports whether a session that was opened on other may go on with s: the same samples in the same order, stored in the
// same way.
func (s *openSet) serves(other *openSet) bool {
	a, b := s.Manifest(), other.Manifest()
	return a.Fingerprint == b.Fingerprint && !a.OtherContent(b) &&
		reflect.DeepEqual(a.Encoding, b.Encoding) && reflect.DeepEqual(a.Fields, b.Fields)
}

// lacks returns the partitions that other has and s has not; both have as many.
func (s *openSet) lacks(other *openSet) []int {
	return slices.DeleteFunc(s.Missing(), func(p int) bool { return !other.Has(p) })
}

// reloadRequest asks the server to look for its sets again.
type reloadRequest struct{}

func (c *connection) reload(reloadRequest) error {
	done, err := c.server.Reload()
	if err != nil {
		return err
	}
	return c.send(done)
}

// Reload looks for the sets again, and serves sets and partitions that have become whole since. Sessions read the new files from
// their next epoch on. A set stays open as it was where the new one does not match it: the fingerprint says that it holds other
// data, or it has fewer partitions. An error means that nothing has changed.
func (s *Server) Reload() (status.Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	found := s.cfg.Found
	if s.cfg.Find != nil {
		var err error
		if found, err = s.cfg.Find(); err != nil {
			return status.Reloaded{}, fmt.Errorf("reload: nothing has changed: %w", err)
		}
	}
	before, next := s.catalog.Load(), openCatalog(found, s.log)
	done := next.replace(before)
	s.catalog.Store(next)
	if err := before.close(); err != nil {
		s.log.Error("closing a set failed", "err", err)
	}
	for _, text := range done.Changes {
		s.log.Info("reload: " + text)
	}
	if len(done.Changes)+len(done.Refused) == 0 {
		s.log.Info("reload: " + status.Unchanged)
	}
	for _, text := range done.Refused {
		s.log.Error("reload: " + text)
	}
	for _, err := range next.problems() {
		s.log.Error("damaged, and not served", "err", err)
	}
	return done, nil
}

// replace takes over the sets of the catalog before it that next does not match, and says what is new and what was kept.
func (next *catalog) replace(before *catalog) status.Reloaded {
	done := status.Reloaded{Changes: []string{}, Refused: []string{}}
	for _, split := range before.splits {
		old, set := before.sets[split], next.sets[split]
		if why := next.refusal(split, old); why != "" {
			text := fmt.Sprintf("split %s: %s; what was opened before is served on", split, why)
			done.Refused = append(done.Refused, text)
			if set != nil {
				set.drop()
			}
			old.hold() // it is open: before holds it
			next.sets[split], next.found.Sets[split], next.broken[split] = old, before.found.Sets[split], fmt.Errorf("%s", text)
		} else if more := old.lacks(set); len(more) > 0 {
			done.Changes = append(done.Changes, fmt.Sprintf("split %s: partitions %v are served now", split, more))
		}
	}
	next.splits = slices.Sorted(maps.Keys(next.sets))
	for _, split := range next.splits {
		if before.sets[split] == nil {
			done.Changes = append(done.Changes,
				fmt.Sprintf("split %s is served now, %s", split, bytesize.Counted(next.sets[split].Len(), "sample", "samples")))
		}
	}
	return done
}

// refusal says why a set that is open cannot be replaced by what was found, or "".
func (next *catalog) refusal(split string, old *openSet) string {
	set, dir := next.sets[split], next.found.Sets[split]
	switch {
	case set == nil && dir == "":
		return old.Dir() + " holds no set of it any more"
	case set == nil:
		return next.broken[split].Error()
	case set.Manifest().Fingerprint != old.Manifest().Fingerprint:
		return fmt.Sprintf("%s holds other data, of fingerprint %s, and %s is served: start imgfeed again to serve it",
			dir, set.Manifest().Fingerprint, old.Manifest().Fingerprint)
	case set.Manifest().OtherContent(old.Manifest()):
		return fmt.Sprintf("%s holds the same samples with other content, %s, and %s is served: start imgfeed again to serve it",
			dir, set.Manifest().Content, old.Manifest().Content)
	}
	if less := set.lacks(old); len(less) > 0 {
		return fmt.Sprintf("%s lacks partitions %v, which were whole", dir, less)
	}
	return ""
}
