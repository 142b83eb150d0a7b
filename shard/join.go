package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

// Joined are sets of one split, one after the other, as a single set that lies in no file: the samples of the second follow those of the
// first. It has one partition, so that every reader needs all of it.
type joined struct {
	parts  []*Set
	starts []int // index of each part's first sample
}

// Join makes one set of several of the same split. All their partitions must be here. The joined set owns the parts, and closes them;
// so does Join before it returns an error. A class keeps its label from the first set that knows it, and classes known only to later
// sets follow. If apart is set, each set's classes follow those of the sets before it, even where names are equal. The error says which
// set does not go with the first.
func Join(parts []*Set, apart bool) (*Set, error) {
	first := parts[0].manifest
	m := &Manifest{
		Format: first.Format, Version: first.Version, Split: first.Split, Encoding: first.Encoding,
		Partitions: 1, Fields: slices.Clone(first.Fields),
	}
	s := &Set{manifest: m, partitions: []partition{{present: true}}, joined: &joined{parts, make([]int, len(parts))}}
	var dirs []string
	fingerprint, content := sha256.New(), sha256.New()
	fmt.Fprintf(fingerprint, "imgfeed join v1\x00%t", apart)
	whole := true
	for n, part := range parts {
		if err := m.takes(part); err != nil {
			s.Close()
			return nil, fmt.Errorf("shard: %s can't be joined with %s: %w", part.dir, parts[0].dir, err)
		}
		dirs = append(dirs, part.dir)
		s.starts[n] = m.Samples
		m.Samples += part.Len()
		part.relabel(m.addClasses(part.manifest.Classes, apart))
		fmt.Fprintf(fingerprint, "\x00%s %q", part.manifest.Fingerprint, part.manifest.Classes)
		io.WriteString(content, part.manifest.Content)
		whole = whole && part.manifest.Content != ""
	}
	s.dir = strings.Join(dirs, " + ")
	m.Fingerprint = hex.EncodeToString(fingerprint.Sum(nil))
	if whole {
		m.Content = hex.EncodeToString(content.Sum(nil))
	}
	return s, nil
}

// takes says why a set can't be joined with those before it, and notes the lengths of its fields.
func (m *Manifest) takes(part *Set) error {
	p := part.manifest
	switch {
	case !p.Encoding.Equal(m.Encoding):
		return fmt.Errorf("its images are stored as %s, the others as %s: imgshard repack makes them alike", p.Encoding, m.Encoding)
	case !p.Fields.Equal(m.Fields):
		return fmt.Errorf("its fields are %v, the others' %v", p.Fields, m.Fields)
	case len(part.Missing()) > 0:
		return fmt.Errorf("every partition must be here: %w", part.Absence(part.Missing()[0]))
	}
	for i := range m.Fields {
		m.Fields[i].BytesMax = max(m.Fields[i].BytesMax, p.Fields[i].BytesMax)
	}
	return nil
}

// addClasses adds a set's classes, and returns the new label of each.
func (m *Manifest) addClasses(classes []string, apart bool) []int32 {
	labels, known := make([]int32, len(classes)), map[string]int32{}
	for label, name := range m.Classes {
		known[name] = int32(label)
	}
	for i, name := range classes {
		label, is := known[name]
		if !is || apart {
			label = int32(len(m.Classes))
			m.Classes = append(m.Classes, name)
		}
		labels[i] = label
	}
	return labels
}

// relabel has entries of a set bear other labels from now on. It comes before all readers.
func (s *Set) relabel(labels []int32) {
	for i := range s.partitions {
		for _, r := range s.partitions[i].shards {
			r.labels = labels
		}
	}
}

// Parts returns how many samples each of the sets has that it was joined of; nil for any other set.
func (s *Set) Parts() (lengths []int) {
	if s.joined == nil {
		return nil
	}
	for _, part := range s.parts {
		lengths = append(lengths, part.Len())
	}
	return lengths
}

// part returns the set that sample i is of, and its index there. i is in range.
func (j *joined) part(i int) (*Set, int) {
	n := sort.SearchInts(j.starts, i+1) - 1
	return j.parts[n], i - j.starts[n]
}

// each calls do for the sets of joined ones, or for the only one, with the index of its first sample, until there is an error.
func (s *Set) each(do func(part *Set, start int) error) error {
	if s.joined == nil {
		return do(s, 0)
	}
	for n, part := range s.parts {
		if err := do(part, s.starts[n]); err != nil {
			return err
		}
	}
	return nil
}
