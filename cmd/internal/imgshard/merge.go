package imgshard

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/shard/pack"
)

const mergeHelp = `Make the set at OUT of its parts, which imgshard build SRC -o OUT --part I/N or imgshard index has made on N machines.

The set has the same bytes as one machine's build with the same flags, and the same lists of what was left out. Every record
is copied once, and none is decoded. Parts that are missing, or that were made with other flags or of another SRC, are named.
The parts lie beside OUT, in .OUT.parts, and are removed at the end.`

func newMergeCommand() *cobra.Command {
	var o pack.Options
	c := &cobra.Command{
		Use:     "merge OUT",
		Short:   "Make a set of the parts that several machines have packed",
		Long:    mergeHelp,
		Example: "  imgshard build /data/train -o /nfs/train-shards --part 1/4    # and 2/4 to 4/4 elsewhere\n  imgshard merge /nfs/train-shards",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withProgress(c.Context(), c.ErrOrStderr(), "the parts stay, and the unfinished set is removed", func(ctx context.Context, show *progress) error {
				o.Progress = show.update
				return pack.Merge(ctx, args[0], o, func(s pack.Summary) {
					show.finish()
					printSummary(c, s, show.took())
				})
			})
		},
	}
	addJobsFlag(c.Flags(), &o.Jobs, "workers (default one for each CPU, and 64 in a bucket)")
	addForceFlag(c.Flags(), &o.Replace)
	addJSONFlag(c)
	return c
}
