package loader

import "iter"

// alike gives the samples that may stand in the place of one that cannot be served, at most SubstitutesMax: those of the plan's
// alternatives that are of its class.
func (s *Stream) alike(index, repetition int) iter.Seq[int] {
	return func(yield func(int) bool) {
		label, known := s.cfg.Dataset.Label(index)
		left := SubstitutesMax
		for candidate := range s.cfg.Plan.Alternatives(index, repetition) {
			if !known || left == 0 {
				return
			}
			if of, ok := s.cfg.Dataset.Label(candidate); !ok || of != label {
				continue
			}
			left--
			if !yield(candidate) {
				return
			}
		}
	}
}

// tell says what became of a bad sample, to the log and to whoever wants to know.
func (s *Stream) tell(bad BadSample) {
	if s.cfg.Bad != nil {
		s.cfg.Bad(bad)
	}
	if bad.By < 0 {
		s.log.Warn("blank sample", "index", bad.Index, "key", bad.Key, "error", bad.Err)
		return
	}
	by, err := s.cfg.Dataset.Key(bad.By)
	if err != nil {
		by = ""
	}
	s.log.Warn("substituted sample", "index", bad.Index, "key", bad.Key, "by", bad.By, "by_key", by, "error", bad.Err)
}
