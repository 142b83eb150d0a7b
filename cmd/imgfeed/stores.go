package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// dataEnv names the environment variable with the folder of the shard sets, for a command line without SET.
const dataEnv = "IMGFEED_DATA"

// usualFolder is the folder of the shard sets if nothing names another.
const usualFolder = "/data"

// defaultHelp says in the help of serve and feed which set they take without SET.
const defaultHelp = `Without SET, $IMGFEED_DATA names it. If that is not set, the sets in the working folder are taken, or the set
beside it that imgshard build makes of it, or else the sets in /data.`

// setPaths are the paths and URLs of the sets to serve.
type setPaths struct {
	paths []string
	from  string // says where paths come from; "" is the command line
}

// String returns the paths as messages show them.
func (p setPaths) String() string { return strings.Join(p.paths, " + ") + p.from }

// setPathsOf returns the paths that a command line names, or that of the environment, or else the first default folder with a set.
func setPathsOf(args []string) (setPaths, error) {
	if len(args) > 0 {
		return setPaths{paths: args}, nil
	}
	if path := os.Getenv(dataEnv); path != "" {
		return setPaths{[]string{path}, " ($" + dataEnv + ")"}, cliutil.Usage(cliutil.Readable("$"+dataEnv, path))
	}
	here := absolute(".")
	text := "name the shard set, or a folder of sets or images: as SET, or in $" + dataEnv + "; without it, the sets are looked for in"
	for _, candidate := range []setPaths{
		{[]string{here}, " (the working folder)"},
		{[]string{here + "-shards"}, " (beside the working folder)"},
		{[]string{usualFolder}, " (the usual folder)"},
	} {
		_, err := shard.FindAll(candidate.paths[0])
		absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
		if !absent && !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, fs.ErrPermission) {
			return candidate, nil // if it is damaged, the server says so
		}
		if absent {
			err = fs.ErrNotExist
		}
		text += fmt.Sprintf("\n  %v: %v", candidate, err)
	}
	return setPaths{}, cliutil.Usagef("%s", text)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && !storage.IsRemote(path) {
		return abs
	}
	return path
}

// storeFlags are the flags of reading from buckets and web servers.
type storeFlags struct {
	client *storage.Client
	cache  string
	size   int64
}

func (f *storeFlags) register(flags *pflag.FlagSet) {
	f.client = storage.NewClient()
	flags.Var(durationFlag(&f.client.Timeout, time.Second), "store-timeout",
		"how long to wait for remote storage or a mounted file system to answer, and to find sets there")
	flags.StringArrayVar(&f.client.Sources, "allow-source", nil, cliutil.AllowSource)
	flags.Var(cliutil.Int(&f.client.RequestsMax, 0, 1024), "store-requests",
		"limit of concurrent requests to a set's storage; their number adapts to its answers (default 512)")
	flags.StringVar(&f.cache, "cache", "",
		"folder to cache data from buckets and web servers in; your servers on this machine can share it")
	flags.Var((*bytesize.Size)(&f.size), "cache-size", "limit of --cache, e.g. 400GB (default nine tenths of the free space)")
}

// open prepares for reading until ctx ends, and opens the cache. closeStore closes it.
func (f *storeFlags) open(ctx context.Context) (closeStore func(), err error) {
	f.client.Context = ctx
	storage.Default.Context, storage.Default.Timeout = ctx, f.client.Timeout // reads datasets that are not packed
	closeStore = func() {}
	switch {
	case f.cache == "" && f.size != 0:
		return nil, cliutil.Usagef("--cache-size needs --cache")
	case f.cache == "":
		return closeStore, nil
	}
	if err := cliutil.Output("--cache", f.cache); err != nil {
		return nil, cliutil.Usage(err)
	}
	cache, err := cache.Open(f.cache, f.size)
	if err != nil {
		return nil, err
	}
	f.client.Cache = cache
	return func() { cache.Close() }, nil
}

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
