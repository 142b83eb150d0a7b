package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
)

// lsLine is what ls says of a sample.
type lsLine struct {
	Index     int    `json:"index"`
	Key       string `json:"key"`
	Label     int32  `json:"label"`
	Class     string `json:"class"`
	Width     int32  `json:"width"`
	Height    int32  `json:"height"`
	Bytes     uint32 `json:"bytes"`
	Shard     string `json:"shard"`
	Partition int    `json:"partition"`
	Format    string `json:"format"`

	Fields *json.RawMessage `json:"fields,omitempty"` // an object of the values, with --fields
}

func newLsCommand() *cobra.Command {
	var asJSON, fields bool
	cmd := &cobra.Command{
		Use:   "ls SET [INDEX|KEY]...",
		Short: "List the samples of a shard set",
		Long: `List the samples of the shard set SET, a line for each, in the order of their index, or those that are named by index or key.

The columns, separated by tabs: index, key, label, class, width, height, bytes of the stored image, shard, partition.
With --json each line is an object with these names, and "format" (jpeg, png, ...; pixels).
With --fields the values of the set's fields are added, as one object of JSON; every record is read and checked for that. Bytes are in base64.
Samples in partitions that are not on this machine are left out, and a line on stderr says so.`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return listNamed(cmd, args[0], args[1:], asJSON, fields)
			}
			set, err := openSet(args[0])
			if err != nil {
				return err
			}
			defer set.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
			if err := list(cmd, lister{out, set, asJSON, fields}); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if missing := set.Missing(); len(missing) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "imgshard: not listed: the samples of %d of %s, not here\n", len(missing), bytesize.Counted(set.Partitions(), "partition", "partitions"))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each sample")
	cmd.Flags().BoolVar(&fields, "fields", false, "add the values that each sample has beside its label")
	return cmd
}

// A lister writes lines of samples.
type lister struct {
	out    io.Writer
	set    *shard.Set
	asJSON bool
	fields bool
}

// list writes the lines of the samples that are here.
func list(cmd *cobra.Command, l lister) error {
	return eachEntry(cmd.Context(), l.set, l.line)
}

// listNamed writes the lines of some samples, for which few shards are opened.
func listNamed(cmd *cobra.Command, path string, names []string, asJSON, fields bool) error {
	set, err := openLazily(path)
	if err != nil {
		return err
	}
	defer set.Close()
	l := lister{cmd.OutOrStdout(), set, asJSON, fields}
	for _, name := range names {
		index, err := findSample(set, name)
		if err != nil {
			return err
		}
		entry, err := set.Entry(index)
		if err == nil {
			err = l.line(index, &entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line writes the line of sample i, of which e is the entry.
func (l lister) line(i int, e *shard.Entry) error {
	line, err := describe(l.set, i, e)
	if err == nil && l.fields {
		line.Fields, err = fieldsJSON(l.set, i)
	}
	if err != nil {
		return err
	}
	if l.asJSON {
		enc := json.NewEncoder(l.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(line)
	}
	_, err = fmt.Fprintf(l.out, "%d\t%s\t%d\t%s\t%d\t%d\t%d\t%s\t%d", line.Index, termsafe.Text(line.Key), line.Label,
		termsafe.Text(line.Class), line.Width, line.Height, line.Bytes, line.Shard, line.Partition)
	if l.fields && err == nil {
		_, err = fmt.Fprintf(l.out, "\t%s", *line.Fields)
	}
	if err == nil {
		_, err = fmt.Fprintln(l.out)
	}
	return err
}

// describe collects what ls says of sample i.
func describe(set *shard.Set, i int, entry *shard.Entry) (lsLine, error) {
	key, err := set.Key(i)
	if err != nil {
		return lsLine{}, err
	}
	at, err := set.Locate(i)
	if err != nil {
		return lsLine{}, err
	}
	return lsLine{
		Index: i, Key: key, Label: entry.Label, Class: set.Manifest().Class(entry.Label),
		Width: entry.Width, Height: entry.Height, Bytes: entry.ImageLength,
		Shard: at.Path, Partition: at.Partition, Format: formatName(entry.Format, set.Manifest().Encoding),
	}, nil
}

// formatName names what a set's record is: the format of an image file, or the encoding that has made something else of it.
func formatName(f shard.Format, e shard.Encoding) string {
	if f == imagefile.Encoded {
		return e.Name
	}
	return f.String()
}
