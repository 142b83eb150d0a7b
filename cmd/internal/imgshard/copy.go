package imgshard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const copyHelp = `Copy a set, or all sets of a folder, between any two places: folders, and buckets (s3://bucket/prefix); from web servers too.

Each file is compared with its checksum on the way. Files that B has already are kept if their checksums are right, so that a copy of a good set
over a damaged one repairs it. The manifest comes last, so that at B there is a whole set or none. Interrupted, the
same command goes on with the file where it was.`

func newCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "copy A B",
		Short:   "Copy a set to another folder or a bucket",
		Long:    copyHelp,
		Example: "  imgshard copy /data/imagenet s3://bucket/imagenet\n  imgshard copy s3://bucket/imagenet/val /nvme/val",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return withProgress(c.Context(), c.ErrOrStderr(), "the same command goes on from here", func(ctx context.Context, show *progress) error {
				sets, err := shard.FindSets(args[0])
				if err != nil {
					return err
				}
				for _, split := range slices.Sorted(maps.Keys(sets)) {
					from, to := sets[split], args[1]
					if from != args[0] {
						to = storage.Join(to, split)
					}
					began := time.Now()
					copied, err := shard.Copy(ctx, from, to, func(done, total int64) {
						show.update(pack.Progress{Split: split, Stage: "copying", Bytes: done, Total: total})
					})
					show.finish()
					if err != nil {
						return err
					}
					fmt.Fprintf(outcome(c), "%s: %s copied, %s were there; %s in %.1f s, at %s\n", split, bytesize.Counted(copied.Files, "file", "files"),
						bytesize.Grouped(copied.Kept), bytesize.Format(copied.Bytes), time.Since(began).Seconds(), to)
				}
				return nil
			})
		},
	}
}
