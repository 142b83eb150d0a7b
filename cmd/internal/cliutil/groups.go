package cliutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is flags that stand together in a command's help.
type Group struct {
	Title string
	Flags []string
}

// helpColumns is the width of grouped flags.
const helpColumns = 120

// SetGroups divides the flags in a command's help. Flags of no group come last. It does without cobra's templates, which would
// keep the linker from leaving out unused methods: 10 MB.
func SetGroups(c *cobra.Command, groups ...Group) {
	var grouped []string
	for _, g := range groups {
		grouped = append(grouped, g.Flags...)
	}
	c.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		for _, g := range groups {
			fmt.Fprint(w, usages(g.Title, c.LocalFlags(), func(name string) bool { return slices.Contains(g.Flags, name) }))
		}
		fmt.Fprint(w, usages("Other flags", c.LocalFlags(), func(name string) bool { return !slices.Contains(grouped, name) }))
		fmt.Fprint(w, usages("Global flags", c.InheritedFlags(), func(string) bool { return true }))
		return nil
	})
}

// usages returns the help of some flags, under a title.
func usages(title string, flags *pflag.FlagSet, wanted func(name string) bool) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if wanted(f.Name) {
			set.AddFlag(f)
		}
	})
	return fmt.Sprintf("\n%s:\n%s\n", title, strings.TrimRight(set.FlagUsagesWrapped(helpColumns), "\n"))
}
