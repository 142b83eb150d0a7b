package imgshard

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An lsLine is ls's line for a sample.
type lsLine struct {
	Index     int    `json:"index"`
	Key       string `json:"key"`
	Label     int32  `json:"label"`
	Class     string `json:"class"`
	Width     int32  `json:"width"`
	Height    int32  `json:"height"`
	Bytes     uint32 `json:"bytes"`
	Checksum  string `json:"checksum"` // CRC-32C of the record
	Shard     string `json:"shard"`
	Partition int    `json:"partition"`
	Format    string `json:"format"`

	Fields json.RawMessage `json:"fields,omitempty"` // object of the values, with --fields
}

func newLsCommand() *cobra.Command {
	var l lister
	cmd := &cobra.Command{
		Use:   "ls SET [KEY|INDEX]...",
		Short: "List the samples of a shard set",
		Long: `List the samples of the shard set SET, one per line, in the order of their index, or only those named by key or index.
A number that is a sample's key is this key; --index N lists the sample with the index N in any case.

The columns, separated by tabs: index, key, label, class, width, height, bytes of the stored image, shard, partition.
With --json each line is an object with these names, "format" (jpeg, png, ...; pixels), and "checksum", the CRC-32C of
the stored record.
--fields adds an object with the values of the set's fields, bytes as base64. This reads and checks every record.
Samples in partitions missing on this machine are left out, with a note on stderr.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0], args[1:]) },
	}
	cmd.ValidArgsFunction = completeKeys
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "print a JSON object for each sample")
	cmd.Flags().IntSliceVar(&l.indexes, "index", nil, "list the sample with this index; repeatable")
	cmd.Flags().BoolVar(&l.fields, "fields", false, "add the values of each sample's fields")
	return cmd
}

// A lister writes lines of samples.
type lister struct {
	asJSON, fields bool
	indexes        []int // samples to list by index
	set            *shard.Set
	out            *bufio.Writer
}

// run lists the named samples, opening only their shards, or all.
func (l *lister) run(cmd *cobra.Command, path string, names []string) (err error) {
	if l.set, err = openSet(cmd, path); err != nil {
		return err
	}
	defer l.set.Close()
	l.out = bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	all := len(names)+len(l.indexes) == 0
	for i := 0; err == nil && i < len(names)+len(l.indexes); i++ {
		var index int
		if i < len(names) {
			index, err = findSample(cmd, l.set, names[i])
		} else {
			index, err = checkIndex(l.set, l.indexes[i-len(names)])
		}
		if err == nil {
			err = l.line(index)
		}
	}
	if all {
		err = eachEntry(cmd.Context(), l.set, func(i int, _ *shard.Entry) error { return l.line(i) })
	}
	if err = cmp.Or(err, l.out.Flush()); err != nil {
		return err
	}
	if missing := l.set.Missing(); len(missing) > 0 && all {
		fmt.Fprintf(cmd.ErrOrStderr(), "imgshard: samples of %d of %s are not on this machine, and not listed\n",
			len(missing), bytesize.Counted(l.set.Partitions(), "partition", "partitions"))
	}
	return nil
}

// line writes the line of sample i.
func (l *lister) line(i int) error {
	line, err := describe(l.set, i)
	if err == nil && l.fields {
		line.Fields, err = fieldsJSON(l.set, i)
	}
	if err != nil {
		return err
	}
	if l.asJSON {
		return cliutil.PrintJSON(l.out, line)
	}
	fields := ""
	if l.fields {
		fields = "\t" + string(line.Fields)
	}
	_, err = fmt.Fprintf(l.out, "%d\t%s\t%d\t%s\t%d\t%d\t%d\t%s\t%d%s\n", line.Index, termsafe.Text(line.Key), line.Label,
		termsafe.Text(line.Class), line.Width, line.Height, line.Bytes, line.Shard, line.Partition, fields)
	return err
}

// describe returns the line of sample i.
func describe(set *shard.Set, i int) (lsLine, error) {
	entry, err := set.Entry(i)
	if err != nil {
		return lsLine{}, err
	}
	key, err := set.Key(i)
	if err != nil {
		return lsLine{}, err
	}
	at, err := set.Locate(i)
	return lsLine{
		Index: i, Key: key, Label: entry.Label, Class: set.Manifest().Class(entry.Label),
		Width: entry.Width, Height: entry.Height, Bytes: entry.ImageLength, Checksum: fmt.Sprintf("%08x", entry.Checksum),
		Shard: at.Path, Partition: at.Partition, Format: formatName(entry.Format, set.Manifest().Encoding),
	}, err
}

// formatName names the format of a set's record: that of the image file, or the encoding of another kind of record.
func formatName(f shard.Format, e shard.Encoding) string {
	if f == imagefile.Encoded {
		return e.Name
	}
	return f.String()
}

// fieldsJSON returns a JSON object with a sample's fields and their values.
func fieldsJSON(set *shard.Set, i int) (json.RawMessage, error) {
	values, err := fieldValues(set, i)
	var members []string
	for k, v := range values {
		field := set.Manifest().Fields[k]
		members = append(members, fmt.Sprintf("%q:%s", field.Name, field.JSON(v)))
	}
	return json.RawMessage("{" + strings.Join(members, ",") + "}"), err
}

func newCatCommand() *cobra.Command {
	var file, field string
	var index int
	cmd := &cobra.Command{
		Use:   "cat SET KEY|INDEX",
		Short: "Write one sample's stored image, or a field's value, to standard output",
		Long: `Write the stored image of one sample of the shard set SET. With the encodings "original" and "coefficients" these
are the bytes of the original file.

Name the sample by its key (n01440764/n01440764_10026.JPEG) or by its index, a number as ls prints it. A number that is
a sample's key is this key; cat SET --index N takes the sample with the index N in any case.
With --field NAME the value of that field is written: text, JSON and bytes unchanged, numbers as a line of JSON.
The checksum is checked first, and a damaged record is not written. Other shards are not read: use verify to check them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("index") {
				return cobra.ExactArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := openSet(cmd, args[0])
			if err != nil {
				return err
			}
			defer set.Close()
			if len(args) == 1 {
				index, err = checkIndex(set, index)
			} else {
				index, err = findSample(cmd, set, args[1])
			}
			if err != nil {
				return err
			}
			var content []byte
			if field != "" {
				content, err = fieldContent(set, index, field)
			} else {
				content, err = registry.File(set, index)
			}
			if err != nil {
				return err
			}
			if file != "" {
				return os.WriteFile(file, content, 0o666)
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
	cmd.ValidArgsFunction = completeKeys
	cmd.Flags().IntVar(&index, "index", 0, "index of the sample, instead of KEY")
	cmd.Flags().StringVar(&field, "field", "", "write this field's value instead of the image")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this file instead of standard output")
	return cmd
}

// keysOffered limits how many keys a shell gets at a time.
const keysOffered = 100

// completeKeys completes a command line: folders for SET, then the first keys of a set on this machine that begin with text.
func completeKeys(cmd *cobra.Command, args []string, text string) (keys []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	if storage.IsRemote(args[0]) || len(args) > 1 && cmd.Name() == "cat" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	quiet = true
	set, err := openSet(cmd, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer set.Close()
	for i := 0; i < set.Len() && len(keys) < keysOffered; i++ {
		if key, err := set.Key(i); err == nil && strings.HasPrefix(key, text) {
			keys = append(keys, key)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// fieldContent returns the bytes that cat writes for a sample's field.
func fieldContent(set *shard.Set, i int, name string) ([]byte, error) {
	fields := set.Manifest().Fields
	k := fields.Index(name)
	if k < 0 {
		if len(fields) == 0 {
			return nil, fmt.Errorf("no field %q: the set has no fields", name)
		}
		return nil, fmt.Errorf("no field %q: the set has %v", name, fields)
	}
	values, err := fieldValues(set, i)
	if err != nil {
		return nil, err
	}
	if !fields[k].Numeric() {
		return values[k], nil
	}
	return append(fields[k].JSON(values[k]), '\n'), nil
}
