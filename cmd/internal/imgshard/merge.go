package imgshard

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/shard/pack"
)

const mergeHelp = `Join the parts that N machines have made by imgshard build SRC -o OUT --part I/N into the set OUT.

The set has the same bytes and the same lists of rejected files as a build by one machine with the same flags. Records are
copied once, without decoding. Errors name missing parts, and parts with other flags or of another SRC.
The parts are in .OUT.parts beside OUT, and are removed at the end. If a merge is killed there, another one finds OUT complete.`

func newMergeCommand() *cobra.Command {
	var o pack.Options
	c := &cobra.Command{
		Use:   "merge OUT",
		Short: "Join the parts packed by several machines into a set",
		Long:  mergeHelp,
		Example: "  imgshard build /data/train -o /nfs/train-shards --part 1/4\n" +
			"  imgshard merge /nfs/train-shards",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			merge := func(ctx context.Context, show *progress) error {
				o.Progress = show.update
				return pack.Merge(ctx, args[0], o, func(s pack.Summary) { printSummary(c, s, show) })
			}
			return withProgress(c.Context(), c.ErrOrStderr(), "the parts stay, and the unfinished set is removed", merge)
		},
	}
	addJobsFlag(c.Flags(), &o.Jobs, "number of workers (default one for each CPU, 64 for a bucket)")
	addForceFlag(c.Flags(), &o.Replace)
	addJSONFlag(c)
	return c
}
