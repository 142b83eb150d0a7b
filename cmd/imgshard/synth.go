package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/synth"
)

const synthHelp = `Write a small dataset of ImageNet's shape: class folders of JPEGs of varied sizes in OUT/train and OUT/val, with a PNG
called .JPEG and a greyscale JPEG among them. The same flags write the same files.`

func newSynthCommand() *cobra.Command {
	var o synth.Options
	c := &cobra.Command{
		Use:     "synth OUT",
		Short:   "Write a small synthetic dataset to try things with",
		Long:    synthHelp,
		Example: "  imgshard synth /tmp/demo --classes 10 --train 200 && imgshard build /tmp/demo",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cmp.Or(cliutil.Output("OUT", args[0]), checkJobs(o.Jobs)); err != nil {
				return cliutil.Usage(err)
			}
			for _, flag := range []struct {
				name string
				n    int
			}{{"classes", o.Classes}, {"train", o.Train}, {"size", o.Size}} {
				if flag.n < 1 {
					return cliutil.Usagef("--%s %d: want 1 or more", flag.name, flag.n)
				}
			}
			if o.Val == 0 {
				o.Val = -1
			}
			sum, err := synth.Write(c.Context(), args[0], o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %s in train, %s in val, %s, %s\n", args[0], bytesize.Counted(sum.Train, "image", "images"),
				bytesize.Grouped(sum.Val), bytesize.Counted(o.Classes, "class", "classes"), bytesize.Format(sum.Bytes))
			return nil
		},
	}
	fl := c.Flags()
	fl.IntVar(&o.Classes, "classes", 10, "number of classes")
	fl.IntVar(&o.Train, "train", 100, "training images of each class")
	fl.IntVar(&o.Val, "val", 10, "validation images of each class; 0 for none")
	fl.IntVar(&o.Size, "size", 400, "mean of the longer sides, in pixels")
	fl.Var(cliutil.Seed(&o.Seed), "seed", "seed of the images")
	fl.IntVarP(&o.Jobs, "jobs", "j", 0, "workers (default one for each CPU)")
	return c
}
