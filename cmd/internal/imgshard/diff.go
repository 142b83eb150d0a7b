package imgshard

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
)

// Kinds of difference between two sets.
const (
	diffRemoved    = "removed"    // only the first set has the key
	diffAdded      = "added"      // only the second
	diffRelabelled = "relabelled" // the class's name differs
	diffChanged    = "changed"    // the stored image or the bytes beside it
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
	// Content says that the records were read, and have the checksums that are recorded.
	Content bool `json:"content_read"`
	// SameOrder says that both serve the same samples in the same order: their fingerprints are equal.
	SameOrder bool `json:"same_order"`
}

func newDiffCommand() *cobra.Command {
	var asJSON, quiet, content bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two shard sets: samples added, removed, relabelled, changed",
		Long: `Compare the shard sets A and B by the keys of their samples: which only one of them has, which have a class of another name, and of
which the stored bytes differ, by the recorded checksums of their records; --content reads the records too, and ends with the first that is damaged. Where A and B store images in different ways, images are
not compared, and the last line says so.

An image that was moved to another class's folder has another key: where file name and bytes are the same, it is relabelled too.

A line for each difference: its kind, the key, for relabelled the two classes, and B's key where it differs; then a line that counts. With --json each
difference is an object, and so is the last line. Only samples in partitions that are on this machine count.
The exit status is 1 when something differs, so that scripts can ask.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := openSet(cmd, args[0], false)
			if err != nil {
				return err
			}
			defer a.Close()
			b, err := openSet(cmd, args[1], false)
			if err != nil {
				return err
			}
			defer b.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16) // which keeps its first error for Flush
			d := differ{a: a, b: b, content: content, tell: func(x difference) { x.print(out) }}
			switch {
			case quiet:
				d.tell = func(difference) {}
			case asJSON:
				d.tell = func(x difference) { cliutil.PrintJSON(out, x) }
			}
			err = d.run(cmd.Context())
			if err == nil && asJSON {
				err = cliutil.PrintJSON(out, d.sum)
			} else if err == nil {
				d.sum.print(out)
			}
			if err = cmp.Or(err, out.Flush()); err == nil && d.sum.Added+d.sum.Removed+d.sum.Relabelled+d.sum.Changed > 0 {
				err = errors.New("the sets differ") // makes the exit status 1
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each difference, and one that counts")
	cmd.Flags().BoolVar(&content, "content", false, "read all records of both sets, so that damage is found")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the line that counts")
	return cmd
}

// print writes a difference as a line of columns.
func (d *difference) print(out io.Writer) {
	line := d.Kind + "\t" + termsafe.Text(d.Key)
	if d.Kind == diffRelabelled {
		line += "\t" + termsafe.Text(d.Before) + "\t" + termsafe.Text(d.After)
	}
	if d.Now != "" {
		line += "\t" + termsafe.Text(d.Now)
	}
	fmt.Fprintln(out, line)
}

func (s *diffSummary) print(out io.Writer) {
	fmt.Fprintf(out, "same %d, added %d, removed %d, relabelled %d, changed %d", s.Same, s.Added, s.Removed, s.Relabelled, s.Changed)
	if s.SameOrder {
		fmt.Fprint(out, "; served in the same order")
	}
	fmt.Fprintln(out)
	if s.Compared && !s.Content {
		fmt.Fprintln(out, "images were compared by their recorded checksums: --content reads them")
	}
	if !s.Compared {
		fmt.Fprintln(out, "images were not compared: the sets store them in different ways")
	}
}

// A differ compares two sets: it joins them by key. It keeps all of B's samples in memory, about 120 bytes each.
type differ struct {
	a, b    *shard.Set
	content bool // records are read
	tell    func(difference)
	sum     diffSummary
}

// A sample holds the properties by which samples are compared.
type sample struct {
	key, class       string
	length, checksum uint32
	met              bool // in the other set
}

// A fileIdentity holds what does not change when an image moves to another folder.
type fileIdentity struct {
	name             string
	length, checksum uint32
}

func (s *sample) identity() fileIdentity {
	return fileIdentity{path.Base(s.key), s.length, s.checksum}
}

// eachSample calls do for each sample that is on this machine.
func (d *differ) eachSample(ctx context.Context, set *shard.Set, do func(*sample)) error {
	var buf []byte
	return eachEntry(ctx, set, func(i int, e *shard.Entry) error {
		key, err := set.Key(i)
		if err == nil && d.content {
			_, buf, err = set.Read(i, buf)
		}
		if err == nil {
			do(&sample{key: key, class: set.Manifest().Class(e.Label), length: e.ImageLength, checksum: e.Checksum})
		}
		return err
	})
}

// run tells of the samples that both sets have in A's order, of those that only A has, and of those that only B has in B's order.
func (d *differ) run(ctx context.Context) error {
	ma, mb := d.a.Manifest(), d.b.Manifest()
	d.sum = diffSummary{
		Before: d.a.Dir(), After: d.b.Dir(), Content: d.content, SameOrder: ma.Fingerprint == mb.Fingerprint,
		Compared: ma.Encoding.String() == mb.Encoding.String() && len(ma.Fields) == len(mb.Fields),
	}
	var inB, gone []*sample
	byKey := make(map[string]*sample, d.b.Len())
	if err := d.eachSample(ctx, d.b, func(s *sample) {
		byKey[s.key] = s
		inB = append(inB, s)
	}); err != nil {
		return err
	}
	if err := d.eachSample(ctx, d.a, func(s *sample) {
		if after := byKey[s.key]; after != nil {
			after.met = true
			d.compare(s, after)
		} else {
			gone = append(gone, s)
		}
	}); err != nil {
		return err
	}
	d.removedOrMoved(gone, inB)
	for _, s := range inB {
		if !s.met {
			d.sum.Added++
			d.tell(difference{Kind: diffAdded, Key: s.key})
		}
	}
	return nil
}

// compare compares the samples of one key in both sets.
func (d *differ) compare(before, after *sample) {
	relabelled := before.class != after.class
	changed := d.sum.Compared && (before.checksum != after.checksum || before.length != after.length)
	if relabelled {
		d.sum.Relabelled++
		d.tell(difference{Kind: diffRelabelled, Key: before.key, Before: before.class, After: after.class})
	}
	if changed {
		d.sum.Changed++
		d.tell(difference{Kind: diffChanged, Key: before.key})
	}
	if !relabelled && !changed {
		d.sum.Same++
	}
}

// removedOrMoved reports the samples whose keys B lacks. Those that B has in another class's folder are relabelled.
func (d *differ) removedOrMoved(gone, inB []*sample) {
	moved := map[fileIdentity][]*sample{}
	for _, s := range inB {
		if d.sum.Compared && len(gone) > 0 && !s.met {
			moved[s.identity()] = append(moved[s.identity()], s)
		}
	}
	for _, s := range gone {
		if to := moved[s.identity()]; len(to) > 0 && to[0].class != s.class {
			to[0].met = true
			moved[s.identity()] = to[1:]
			d.sum.Relabelled++
			d.tell(difference{diffRelabelled, s.key, s.class, to[0].class, to[0].key})
			continue
		}
		d.sum.Removed++
		d.tell(difference{Kind: diffRemoved, Key: s.key})
	}
}
