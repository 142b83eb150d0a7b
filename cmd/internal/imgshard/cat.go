package imgshard

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
)

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

// completeKeys offers a shell folders as SET, and then the first keys of a set on this machine that begin with text.
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
