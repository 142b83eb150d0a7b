package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/source"
	"github.com/imgfeed/imgfeed/shard"
)

// infoReport is what info says of a path: the sets there, or the splits of a dataset that build would pack.
type infoReport struct {
	Sets    []infoSet    `json:"sets"`
	Sources []infoSource `json:"sources"`
}

type infoSet struct {
	Split       string         `json:"split"`
	Path        string         `json:"path"`
	Samples     int            `json:"samples"`
	Encoding    shard.Encoding `json:"encoding"`
	Partitions  int            `json:"partitions"`
	Fingerprint string         `json:"fingerprint"`
	Classes     []string       `json:"classes"`
}

type infoSource struct {
	Split  string `json:"split"`
	Path   string `json:"path"`
	Layout string `json:"layout"`
	Output string `json:"output"` // where build would put the set
}

func newInfoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info PATH",
		Short: "Say what is at PATH: shard sets, or a dataset to pack",
		Long: `Say what is at PATH: the shard sets, as imgfeed serve would find them there, or else the splits of a dataset that
imgshard build would pack. Only manifests and names are read.

With --json it is one object, for programs: {"sets": [{"split", "path", "samples", "encoding", "partitions", "fingerprint",
"classes"}], "sources": [{"split", "path", "layout", "output"}]}; one of the two lists is empty.
Where neither is there, or a set is damaged, the exit status is 1, and the error says what was looked for.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := inspect(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			report.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// inspect looks for sets, and where there is none for datasets.
func inspect(path string) (infoReport, error) {
	report := infoReport{Sets: []infoSet{}, Sources: []infoSource{}}
	found, err := shard.FindSets(path)
	if err != nil {
		if !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, syscall.ENOTDIR) { // a tar is no folder, and can be packed
			return report, err
		}
		splits, why := source.Open(path, source.Options{})
		if why != nil {
			return report, fmt.Errorf("%w; and no dataset to pack: %w", err, why)
		}
		for _, s := range splits {
			report.Sources = append(report.Sources, infoSource{Split: s.Name, Path: s.Path, Layout: s.Layout(), Output: s.Output})
		}
		return report, nil
	}
	for _, split := range slices.Sorted(maps.Keys(found)) {
		m, err := shard.ReadManifest(found[split])
		if err != nil {
			return report, err
		}
		report.Sets = append(report.Sets, infoSet{
			Split: m.Split, Path: found[split], Samples: m.Samples, Encoding: m.Encoding, Partitions: m.Partitions,
			Fingerprint: m.Fingerprint, Classes: m.Classes,
		})
	}
	return report, nil
}

// print writes a line for each set or split.
func (r infoReport) print(w io.Writer) {
	for _, s := range r.Sets {
		fmt.Fprintf(w, "%s: set of %s in %s, %s, at %s\n", s.Split, counted(s.Samples, "image", "images"),
			counted(len(s.Classes), "class", "classes"), counted(s.Partitions, "partition", "partitions"), printable(s.Path))
	}
	for _, s := range r.Sources {
		fmt.Fprintf(w, "%s: not packed yet: %s at %s, which imgshard build would pack to %s\n", s.Split, s.Layout,
			printable(s.Path), printable(s.Output))
	}
}
