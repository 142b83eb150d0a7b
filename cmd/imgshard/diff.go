package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
)

// Kinds of difference between two sets.
const (
	diffRemoved    = "removed"    // only the first set has the key
	diffAdded      = "added"      // only the second
	diffRelabelled = "relabelled" // the class's name differs
	diffChanged    = "changed"    // the stored image or what lies beside it
)

// A difference is one sample that is not the same in both sets.
type difference struct {
	Kind   string `json:"kind"`
	Key    string `json:"key"`
	Before string `json:"before,omitempty"` // the class's name, where it differs
	After  string `json:"after,omitempty"`
	Now    string `json:"key_now,omitempty"` // the second set's key, where it differs
}

// diffSummary counts the differences.
type diffSummary struct {
	Before     string `json:"before"`
	After      string `json:"after"`
	Same       int    `json:"same"`
	Added      int    `json:"added"`
	Removed    int    `json:"removed"`
	Relabelled int    `json:"relabelled"`
	Changed    int    `json:"changed"`
	// Compared is false where the sets store images in different ways: then only keys and classes were.
	Compared bool `json:"images_compared"`
	// SameOrder says that both serve the same samples in the same order: their fingerprints are equal.
	SameOrder bool `json:"same_order"`
}

func newDiffCommand() *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two shard sets: samples added, removed, relabelled, changed",
		Long: `Compare the shard sets A and B by the keys of their samples: which only one of them has, which have a class of another name, and of
which the stored bytes differ, by the checksums of their records. Where A and B store images in different ways, images are
not compared, and the last line says so.

An image that was moved to another class's folder has another key: where file name and bytes are the same, it is relabelled too.

A line for each difference: its kind, the key, for relabelled the two classes, and B's key where it differs; then a line that counts. With --json each
difference is an object, and so is the last line. Only samples in partitions that are on this machine count.
The exit status is 1 when something differs, so that scripts can ask.`,
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := openSet(args[0])
			if err != nil {
				return err
			}
			defer a.Close()
			b, err := openSet(args[1])
			if err != nil {
				return err
			}
			defer b.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
			d := differ{a: a, b: b, tell: textDifference(out)}
			if asJSON {
				enc := json.NewEncoder(out)
				enc.SetEscapeHTML(false)
				d.tell = func(x difference) error { return enc.Encode(x) }
			}
			if quiet {
				d.tell = func(difference) error { return nil }
			}
			sum, err := d.run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(sum)
			} else {
				sum.print(out)
			}
			if err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if sum.Added+sum.Removed+sum.Relabelled+sum.Changed > 0 {
				return errDifferent
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each difference, and one that counts")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the line that counts")
	return cmd
}

// errDifferent makes the exit status 1.
var errDifferent = fmt.Errorf("the sets differ")

// textDifference writes differences as lines of columns.
func textDifference(out io.Writer) func(difference) error {
	return func(d difference) error {
		line := d.Kind + "\t" + termsafe.Text(d.Key)
		if d.Kind == diffRelabelled {
			line += "\t" + termsafe.Text(d.Before) + "\t" + termsafe.Text(d.After)
		}
		if d.Now != "" {
			line += "\t" + termsafe.Text(d.Now)
		}
		_, err := fmt.Fprintln(out, line)
		return err
	}
}

func (s *diffSummary) print(out io.Writer) {
	fmt.Fprintf(out, "same %d, added %d, removed %d, relabelled %d, changed %d", s.Same, s.Added, s.Removed, s.Relabelled, s.Changed)
	if s.SameOrder {
		fmt.Fprint(out, "; served in the same order")
	}
	fmt.Fprintln(out)
	if !s.Compared {
		fmt.Fprintln(out, "images were not compared: the sets store them in different ways")
	}
}

// A differ compares two sets.
type differ struct {
	a, b *shard.Set
	tell func(difference) error
	sum  diffSummary
	gone []int // of A, whose keys B has not
}

// run compares by keys. It keeps B's keys in memory: about 120 bytes a sample.
func (d *differ) run(ctx context.Context) (*diffSummary, error) {
	ma, mb := d.a.Manifest(), d.b.Manifest()
	d.sum = diffSummary{
		Before: d.a.Dir(), After: d.b.Dir(), SameOrder: ma.Fingerprint == mb.Fingerprint,
		Compared: ma.Encoding.String() == mb.Encoding.String() && len(ma.Fields) == len(mb.Fields),
	}
	inB := make(map[string]int, d.b.Len())
	if err := eachHere(ctx, d.b, func(i int) error {
		key, err := d.b.Key(i)
		inB[key] = i
		return err
	}); err != nil {
		return nil, err
	}
	if err := eachHere(ctx, d.a, func(i int) error { return d.compare(i, inB) }); err != nil {
		return nil, err
	}
	if err := d.gonesOrMoved(ctx, inB); err != nil {
		return nil, err
	}
	err := eachHere(ctx, d.b, func(i int) error { // in B's order
		key, err := d.b.Key(i)
		if _, left := inB[key]; err != nil || !left {
			return err
		}
		d.sum.Added++
		return d.tell(difference{Kind: diffAdded, Key: key})
	})
	return &d.sum, err
}

// A fileIdentity is what an image keeps when it is moved to another folder.
type fileIdentity struct {
	name             string
	length, checksum uint32
}

func identityOf(key string, e shard.Entry) fileIdentity {
	return fileIdentity{path.Base(key), e.ImageLength, e.Checksum}
}

// gonesOrMoved tells of the samples whose keys only A has. Those that B has in another class's folder are taken out of inB.
func (d *differ) gonesOrMoved(ctx context.Context, inB map[string]int) error {
	moved := map[fileIdentity][]string{} // keys that only B has
	if d.sum.Compared && len(d.gone) > 0 {
		if err := eachHere(ctx, d.b, func(j int) error {
			key, err := d.b.Key(j)
			if _, left := inB[key]; err != nil || !left {
				return err
			}
			e, err := d.b.Entry(j)
			id := identityOf(key, e)
			moved[id] = append(moved[id], key)
			return err
		}); err != nil {
			return err
		}
	}
	for _, i := range d.gone {
		key, err := d.a.Key(i)
		if err != nil {
			return err
		}
		e, err := d.a.Entry(i)
		if err != nil {
			return err
		}
		x := difference{Kind: diffRemoved, Key: key}
		id := identityOf(key, e)
		if keys := moved[id]; len(keys) > 0 {
			to, err := d.b.Entry(inB[keys[0]])
			if err != nil {
				return err
			}
			if was, is := d.a.Manifest().Class(e.Label), d.b.Manifest().Class(to.Label); was != is {
				x = difference{diffRelabelled, key, was, is, keys[0]}
				delete(inB, keys[0])
				moved[id] = keys[1:]
			}
		}
		if x.Kind == diffRelabelled {
			d.sum.Relabelled++
		} else {
			d.sum.Removed++
		}
		if err := d.tell(x); err != nil {
			return err
		}
	}
	return nil
}

// compare compares sample i of A with B's of the same key, and takes that out of inB.
func (d *differ) compare(i int, inB map[string]int) error {
	key, err := d.a.Key(i)
	if err != nil {
		return err
	}
	j, both := inB[key]
	if !both {
		d.gone = append(d.gone, i)
		return nil
	}
	delete(inB, key)
	before, err := d.a.Entry(i)
	if err != nil {
		return err
	}
	after, err := d.b.Entry(j)
	if err != nil {
		return err
	}
	same := true
	if was, is := d.a.Manifest().Class(before.Label), d.b.Manifest().Class(after.Label); was != is {
		same = false
		d.sum.Relabelled++
		if err := d.tell(difference{Kind: diffRelabelled, Key: key, Before: was, After: is}); err != nil {
			return err
		}
	}
	if d.sum.Compared && (before.Checksum != after.Checksum || before.ImageLength != after.ImageLength) {
		same = false
		d.sum.Changed++
		if err := d.tell(difference{Kind: diffChanged, Key: key}); err != nil {
			return err
		}
	}
	if same {
		d.sum.Same++
	}
	return nil
}

// eachHere calls do for each sample that is on this machine.
func eachHere(ctx context.Context, set *shard.Set, do func(i int) error) error {
	for i := range set.Len() {
		if i&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !set.Has(i % set.Partitions()) {
			continue
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}
