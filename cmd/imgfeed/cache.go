package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

func newCacheCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cache", Short: "Look after the folder of --cache", Long: "Look after a folder that imgfeed serve --cache keeps parts of remote sets in."}
	do := func(use, short string, each func(*cobra.Command, *storage.Cache, storage.ObjectInfo) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Long: short + ".\n\nPLACE is the beginning of a URL; without one, all files are meant.", Args: cobra.RangeArgs(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				if _, err := os.Stat(args[0]); err != nil {
					return err
				}
				if names, err := fs.Glob(os.DirFS(args[0]), "used"); err != nil || len(names) == 0 {
					return fmt.Errorf("%s is no cache: name the folder that --cache named", args[0])
				}
				cache, err := storage.OpenCache(args[0], 0)
				if err != nil {
					return err
				}
				defer cache.Close()
				list, err := cache.Objects()
				if err != nil {
					return err
				}
				for _, info := range list {
					if !strings.HasPrefix(info.Place, append(args, "")[1]) {
						continue
					}
					if err := each(cmd, cache, info); err != nil {
						return err
					}
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s kept\n", args[0], bytesize.Format(cache.Used()))
				return nil
			},
		})
	}
	do("ls DIR [PLACE]", "List the files of which parts are kept", func(cmd *cobra.Command, _ *storage.Cache, info storage.ObjectInfo) error {
		fmt.Fprintf(cmd.OutOrStdout(), "%10s of %10s  %s\n", bytesize.Format(info.Kept), bytesize.Format(info.Bytes), info.Place)
		return nil
	})
	do("rm DIR [PLACE]", "Remove what is kept and no server uses", func(cmd *cobra.Command, cache *storage.Cache, info storage.ObjectInfo) error {
		err := cache.Remove(info)
		if errors.Is(err, storage.ErrInUse) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s stays: %v\n", info.Place, err)
			return nil
		}
		return err
	})
	do("verify DIR [PLACE]", "Check the records that are kept, and forget those that are damaged", func(cmd *cobra.Command, cache *storage.Cache, info storage.ObjectInfo) error {
		kept, forgotten, err := shard.VerifyCached(cache, info)
		if err == nil && forgotten > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d of %d records were damaged, and are read again\n", info.Place, forgotten, kept+forgotten)
		}
		return err
	})
	return cmd
}
