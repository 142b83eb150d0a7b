package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cache", Short: "Manage a folder of imgfeed serve --cache"}
	do := func(use, short string, each func(*cobra.Command, *cache.Cache, cache.Info) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Long: short + ".\n\nPLACE is the beginning of their URLs (default: all files).",
			Args: cobra.RangeArgs(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				if _, err := os.Stat(args[0]); err != nil {
					return err
				}
				if _, err := os.Stat(filepath.Join(args[0], "lock")); err != nil {
					return fmt.Errorf("%s is not a cache: give the folder of imgfeed serve --cache", args[0])
				}
				kept, err := cache.Open(args[0], 0)
				if err != nil {
					return err
				}
				defer kept.Close()
				for _, info := range kept.Objects() {
					if !strings.HasPrefix(info.Place, append(args, "")[1]) {
						continue
					}
					if err := each(cmd, kept, info); err != nil {
						return err
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s cached\n", args[0], bytesize.Format(kept.Used()))
				return nil
			},
		})
	}
	do("ls DIR [PLACE]", "List the cached files", func(cmd *cobra.Command, _ *cache.Cache, info cache.Info) error {
		fmt.Fprintf(cmd.OutOrStdout(), "%10s of %10s  %s\n", bytesize.Format(info.Kept), bytesize.Format(info.Bytes), info.Place)
		return nil
	})
	remove := func(cmd *cobra.Command, kept *cache.Cache, info cache.Info) error {
		err := kept.Remove(info)
		if errors.Is(err, cache.ErrInUse) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s stays: %v\n", info.Place, err)
			return nil
		}
		return err
	}
	do("rm DIR [PLACE]", "Remove cached files that no server uses", remove)
	return cmd
}
