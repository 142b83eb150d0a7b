package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/version"
	"github.com/imgfeed/imgfeed/server"
)

// A versionInfo is what imgfeed version prints.
type versionInfo struct {
	version.Info
	Kernels  string `json:"kernels"`  // in use
	Compiled string `json:"compiled"` // the highest level in the binary
	Wire     int    `json:"wire"`
	Notice   string `json:"notice,omitempty"` // that there are no kernels, and how to get them
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and which accelerated code is in use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{Info: version.Get(), Kernels: kernel.Active().String(), Compiled: kernel.Compiled().String(), Wire: server.ProtocolVersion, Notice: kernel.Notice()}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "imgfeed %s\n%s, %s; kernels: %s in use, %s compiled in; wire version %d\n",
				v, v.Go, v.Platform, v.Kernels, v.Compiled, v.Wire)
			if err == nil && v.Notice != "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), v.Notice)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
