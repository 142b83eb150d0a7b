package server

import (
	"fmt"
	"maps"
	"slices"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
)

// reloadRequest asks the server to look again at what there is to serve.
type reloadRequest struct{}

// Reloaded answers a reload: what is served now and was not, and what is not taken up, each in a sentence.
type Reloaded struct {
	Changes []string `json:"changes"`
	Refused []string `json:"refused"`
}

// Unchanged is what is said of a reload that changes nothing of what is served, and yet opens every file anew.
const Unchanged = "the same splits and partitions are served as before; their files were opened anew, and sessions read those from their next epoch on"

func (c *connection) reload(reloadRequest) error {
	done, err := c.server.Reload()
	if err != nil {
		return err
	}
	return c.send(done)
}

// Reload looks again at what there is to serve, and takes up what has become whole: sets, and partitions of sets. Sessions
// go on with it from their next epoch on. What was opened before is served on as it is where the new one is no match: other
// data, by the fingerprint, or less of it. An error means that nothing has changed.
func (s *Server) Reload() (Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	found := shard.Found{Sets: maps.Clone(s.cfg.Sets), Damaged: s.cfg.Damaged}
	if s.cfg.Find != nil {
		var err error
		if found, err = s.cfg.Find(); err != nil {
			return Reloaded{}, fmt.Errorf("reload: nothing has changed: %w", err)
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
		s.log.Info("reload: " + Unchanged)
	}
	for _, text := range done.Refused {
		s.log.Error("reload: " + text)
	}
	for _, err := range next.problems() {
		s.log.Error("damaged, and not served", "err", err)
	}
	return done, nil
}

// replace keeps of the catalog before it what next has no match for, and says what is new and what was kept.
func (next *catalog) replace(before *catalog) Reloaded {
	done := Reloaded{Changes: []string{}, Refused: []string{}}
	for _, split := range before.splits {
		old, set := before.sets[split], next.sets[split]
		if why := next.refusal(split, old); why != "" {
			text := fmt.Sprintf("split %s: %s; what was opened before is served on", split, why)
			done.Refused = append(done.Refused, text)
			if set != nil {
				set.drop()
			}
			old.hold() // before has it, so it is open
			next.sets[split], next.found.Sets[split], next.broken[split] = old, before.found.Sets[split], fmt.Errorf("%s", text)
		} else if more := old.lacks(set); len(more) > 0 {
			done.Changes = append(done.Changes, fmt.Sprintf("split %s: partitions %v are served now", split, more))
		}
	}
	next.splits = slices.Sorted(maps.Keys(next.sets))
	for _, split := range next.splits {
		if before.sets[split] == nil {
			done.Changes = append(done.Changes, fmt.Sprintf("split %s is served now, %s", split, bytesize.Counted(next.sets[split].Len(), "sample", "samples")))
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
	}
	if less := set.lacks(old); len(less) > 0 {
		return fmt.Sprintf("%s lacks partitions %v, which were whole", dir, less)
	}
	return ""
}
