package imgshard

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/synth"
)

const synthHelp = `Write a small dataset in ImageNet's layout: class folders of JPEGs of varied sizes in OUT/train and OUT/val, including a
PNG named .JPEG and a greyscale JPEG. The same flags write the same files.`

func newSynthCommand() *cobra.Command {
	o := synth.Options{Classes: 10, Train: 100, Val: 10, Size: 400}
	c := &cobra.Command{
		Use:     "synth OUT",
		Short:   "Write a small synthetic dataset for experiments",
		Long:    synthHelp,
		Example: "  imgshard synth /tmp/demo --classes 10 --train 200 && imgshard build /tmp/demo",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cliutil.Output("OUT", args[0]); err != nil {
				return cliutil.Usage(err)
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
	fl.Var(cliutil.Int(&o.Classes, 1, synth.ClassesMax), "classes", "number of classes")
	fl.Var(cliutil.Int(&o.Train, 1, math.MaxInt), "train", "training images per class")
	fl.Var(cliutil.Int(&o.Val, 0, math.MaxInt), "val", "validation images per class; 0 for no val split")
	fl.Var(cliutil.Int(&o.Size, synth.SizeMin, synth.SizeMax), "size", "mean of the longer sides, in pixels")
	fl.Var(cliutil.Seed(&o.Seed), "seed", "seed of the images")
	addJobsFlag(fl, &o.Jobs, "number of workers (default one for each CPU)")
	return c
}
