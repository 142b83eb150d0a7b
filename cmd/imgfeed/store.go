package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// storeFlags are the flags of reading from buckets and web servers.
type storeFlags struct {
	client   *storage.Client
	cache    string
	size     int64
	requests int
}

func (f *storeFlags) register(flags *pflag.FlagSet) {
	f.client = storage.NewClient()
	flags.Var(durationFlag(&f.client.Timeout, time.Second), "store-timeout",
		"how long to wait for remote storage or a mounted file system to answer, and to find sets there")
	flags.StringArrayVar(&f.client.Sources, "allow-source", nil, cliutil.AllowSource)
	flags.Var(cliutil.Int(&f.requests, 0, 1024), "store-requests",
		"limit of concurrent requests to a set's storage; their number adapts to its answers (default 512)")
	flags.StringVar(&f.cache, "cache", "",
		"folder to cache data from buckets and web servers in; your servers on this machine can share it")
	flags.Var((*bytesize.Size)(&f.size), "cache-size", "limit of --cache, e.g. 400GB (default nine tenths of the free space)")
}

// open prepares for reading until ctx ends, and opens the cache. closeStore closes it.
func (f *storeFlags) open(ctx context.Context) (closeStore func(), err error) {
	f.client.Context = ctx
	storage.Default.Context, storage.Default.Timeout = ctx, f.client.Timeout // reads datasets that are not packed
	f.client.SetRequestsMax(f.requests)
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
