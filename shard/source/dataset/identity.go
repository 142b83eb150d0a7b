package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// A Digest tells a dataset from any other by its samples, and by the files that are left out: their keys, labels, sizes and fields, in
// any order. Files beside these are not in it.
type Digest struct {
	Dates bool // dates and ETags are in it, which a copy of the dataset may have changed
	Items int
	sums  map[int32]uint64 // of the items' hashes, by Item.Label
	text  []byte
}

// Add takes an item during a walk over the split.
func (d *Digest) Add(s *Split, it *transport.Item) error {
	size, version, err := it.Pin()
	if err != nil {
		return err
	}
	if !d.Dates {
		version = ""
	}
	d.text = append(append(d.text[:0], it.Key...), 0) // no fmt, for a million files
	d.text = append(append(append(strconv.AppendInt(d.text, size, 10), ' '), version...), 0)
	if s.Streamed() {
		d.text = append(d.text, it.Fields...)
	} else if d.text, err = s.appendNamed(d.text, it.Key); err != nil {
		return err
	}
	if s.Targets != nil && !s.Streamed() {
		if d.text, err = s.Targets.Pin(d.text, it.Key, d.Dates); err != nil {
			return err
		}
	}
	if d.sums == nil {
		d.sums = make(map[int32]uint64)
	}
	sum := sha256.Sum256(d.text)
	d.sums[it.Label] += binary.LittleEndian.Uint64(sum[:])
	d.Items++
	return nil
}

// Sum is the digest, after the walk.
func (d *Digest) Sum(s *Split) string {
	sums := make(map[int32]uint64) // by label
	for of, sum := range d.sums {
		sums[s.Label(of)] += sum
	}
	h := sha256.New()
	for _, label := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(h, "%d %x ", label, sums[label])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// Identity tells a dataset that is read where it lies from any other, also from a later state of itself. It covers all that samples and
// labels come from: classes, the contents of files that name labels, and each file that is a sample or is left out. Of these it takes
// name, size, and date or ETag. It reads no image. A split that is not Streamed can't be walked over again.
func (s *Split) Identity(ctx context.Context) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q ", s.Name, s.Format, s.Root())
	for _, file := range s.Inputs() {
		size, version, err := transport.Pinned(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %d %s ", file, size, version)
	}
	for _, file := range s.LabelFiles {
		f, err := transport.FileSystem{}.Open(file)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, " %q ", file)
	}
	if s.Targets != nil {
		fields, err := json.Marshal(s.Fields())
		if err != nil {
			return "", err
		}
		h.Write(fields)
	}
	if !s.Streamed() {
		d := Digest{Dates: true}
		if err := s.Walk(ctx, func(it transport.Item) error { return d.Add(s, &it) }); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %q", d.Sum(s), s.Classes())
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
