package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cache", Short: "Manage a folder of imgfeed serve --cache"}
	do := func(use, short string, each func(*cobra.Command, *cache.Cache, cache.Info) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Long: short + ".\n\nURL is the beginning of the URLs of the files (default: all files).",
			Args: cobra.RangeArgs(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				if _, err := os.Stat(args[0]); err != nil {
					return err
				}
				if _, err := os.Stat(filepath.Join(args[0], "lock")); err != nil {
					return fmt.Errorf("%s is not a cache: give the folder of imgfeed serve --cache", args[0])
				}
				kept, err := cache.Look(args[0])
				if err != nil {
					return err
				}
				defer kept.Close()
				var errs []error
				for _, info := range kept.Objects() {
					if strings.HasPrefix(info.URL, append(args, "")[1]) {
						errs = append(errs, each(cmd, kept, info))
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s cached\n", args[0], bytesize.Format(kept.Used()))
				return errors.Join(errs...)
			},
		})
	}
	named := func(info cache.Info) string {
		if info.URL == "" {
			return termsafe.Text(info.Name) + ", a file that is not the cache's, or damaged"
		}
		return termsafe.Text(info.URL)
	}
	do("ls DIR [URL]", "List the cached files", func(cmd *cobra.Command, _ *cache.Cache, info cache.Info) error {
		if info.Kept == 0 && strings.HasSuffix(info.Name, ".kept") {
			return nil // it was opened, and nothing of it read
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%10s of %10s  %s\n", bytesize.Format(info.Kept), bytesize.Format(info.Bytes), named(info))
		return nil
	})
	remove := func(cmd *cobra.Command, kept *cache.Cache, info cache.Info) error {
		err := kept.Remove(info)
		if errors.Is(err, cache.ErrInUse) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s stays: %v\n", named(info), err)
			return nil
		}
		return err
	}
	do("rm DIR [URL]", "Remove cached files that no server uses", remove)
	return cmd
}
