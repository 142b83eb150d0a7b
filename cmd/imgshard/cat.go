package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
)

func newCatCommand() *cobra.Command {
	var file, field string
	cmd := &cobra.Command{
		Use:   "cat SET INDEX|KEY",
		Short: "Write one sample's stored image, or a field's value, to standard output",
		Long: `Write the stored image of one sample of the shard set SET: with the encoding "original" the bytes of the file.

A sample is named by its index (a number, as ls prints it) or by its key (n01440764/n01440764_10026.JPEG).
With --field NAME the value of that field is written: text, JSON and bytes as they are, numbers as a line of JSON.
The record's checksum is checked first: nothing is written of a damaged one. Of the set only the shards are read that the
sample lies in, or that are looked at to find its key: what is wrong with others, verify says.`,
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := openLazily(args[0])
			if err != nil {
				return err
			}
			defer set.Close()
			index, err := findSample(set, args[1])
			if err != nil {
				return err
			}
			record, _, err := set.Read(index, nil)
			if err != nil {
				return err
			}
			content := record.Image
			if field != "" {
				if content, err = fieldContent(set, index, &record, field); err != nil {
					return err
				}
			}
			return writeImage(cmd.OutOrStdout(), file, content)
		},
	}
	cmd.Flags().StringVar(&field, "field", "", "write this field's value instead of the image")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this file instead of standard output")
	return cmd
}

// findSample returns the index of the sample that name means: a number is an index, unless it is a sample's key.
func findSample(set *shard.Set, name string) (int, error) {
	index, numErr := strconv.Atoi(name)
	if numErr == nil && index >= 0 && index < set.Len() {
		return index, nil
	}
	found, err := set.Find(name)
	if numErr == nil && errors.Is(err, shard.ErrNotFound) {
		return 0, fmt.Errorf("index %d: %w: the set has %s, the first of which is 0", index, shard.ErrNotFound, bytesize.Counted(set.Len(), "sample", "samples"))
	}
	return found, err
}

// writeImage writes to a file, or to out if it has no name.
func writeImage(out io.Writer, file string, image []byte) error {
	if file != "" {
		return os.WriteFile(file, image, 0o666)
	}
	_, err := out.Write(image)
	return err
}
