package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/server/wire"
	"github.com/imgfeed/imgfeed/transform/kernel"
)

// A versionInfo is what imgfeed version prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that are not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Kernels  string `json:"kernels"`  // in use
	Compiled string `json:"compiled"` // the highest level in the binary
	Wire     int    `json:"wire"`
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and which accelerated code is in use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "imgfeed %s\n%s, %s; kernels: %s in use, %s compiled in; wire version %d\n",
				v, v.Go, v.Platform, v.Kernels, v.Compiled, v.Wire)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// version reads what the linker has left in the binary.
func version() versionInfo {
	v := versionInfo{
		Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Kernels: kernel.Active().String(), Compiled: kernel.Compiled().String(), Wire: wire.Version,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the version in a word or two: "v1.2.0", or "(devel) 1a2b3c4d5e6f".
func (v versionInfo) String() string {
	if v.Version != "(devel)" || v.Commit == "" {
		return v.Version
	}
	return v.Version + " " + v.Commit[:min(len(v.Commit), 12)]
}
