// Command imgfeed serves shard sets, made by imgshard, to training processes. It also is imgshard: when called by that
// name, through a link, or with that name as the first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/server"
	"github.com/imgfeed/imgfeed/transform"
)

func main() {
	switch {
	case filepath.Base(os.Args[0]) == "imgshard":
		imgshard.Main(os.Args[1:])
	case len(os.Args) > 1 && os.Args[1] == "imgshard":
		imgshard.Main(os.Args[2:])
	}
	cmd, err := cliutil.Execute(context.Background(), newRootCommand(), os.Stdout, os.Stderr)
	os.Exit(cliutil.Report(os.Stderr, cmd, err))
}

func newRootCommand() *cobra.Command {
	return cliutil.Root(&cobra.Command{
		Use:   "imgfeed",
		Short: "Serve image batches to training processes",
		Long:  "imgfeed decodes, transforms and shuffles the images of a shard set, and serves them in batches through shared memory.",
	}, cliutil.Manual{
		Environment: "IMGFEED_DATA: default folder of the sets to serve. XDG_RUNTIME_DIR: folder of the socket. " +
			"LOCAL_WORLD_SIZE: --sessions. " + cliutil.StoreEnvironment,
		Files: "$XDG_RUNTIME_DIR/imgfeed.sock, or /tmp/imgfeed-UID/imgfeed.sock: the socket. " +
			"The folder of the same name with .d appended: sockets by which imgfeed status finds all servers of a user.",
	},
		newServeCommand(), newFeedCommand(), newStatusCommand(), newReloadCommand(), newBenchCommand(), newCacheCommand(),
		newVersionCommand())
}

// A versionInfo holds the output of imgfeed version.
type versionInfo struct {
	version.Info
	Kernels  string `json:"kernels"`  // active level
	Compiled string `json:"compiled"` // highest level in the binary
	Wire     int    `json:"wire"`
	Notice   string `json:"notice,omitempty"` // how to get kernels, for a binary without them

	Operations []transform.Schema `json:"operations"` // the same as in the server's hello
}

func newVersionCommand() *cobra.Command {
	return cliutil.NewVersionCommand("Print the version, and which accelerated code is in use", func() (string, any) {
		v := versionInfo{
			Info: version.Get(), Kernels: kernel.Active().String(), Compiled: kernel.Compiled().String(), Wire: server.ProtocolVersion,
			Notice: kernel.Notice(), Operations: transform.Schemas(),
		}
		text := fmt.Sprintf("imgfeed %s\n%s, %s; kernels: %s in use, %s compiled in; wire version %d",
			v, v.Go, v.Platform, v.Kernels, v.Compiled, v.Wire)
		if v.Notice != "" {
			text += "\n" + v.Notice
		}
		return text, v
	})
}
