package cliutil

import (
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

// SetGroups divides the flags in a command's help. Flags of no group come last.
func SetGroups(c *cobra.Command, groups ...Group) {
	const all = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	var parts []string
	grouped := map[string]bool{}
	c.InitDefaultHelpFlag()
	show := func(title string, wanted func(name string) bool) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if wanted(f.Name) {
				set.AddFlag(f)
			}
		})
		parts = append(parts, title+":\n"+strings.TrimRight(set.FlagUsagesWrapped(helpColumns), "\n"))
	}
	for _, g := range groups {
		show(g.Title, func(name string) bool {
			grouped[name] = grouped[name] || slices.Contains(g.Flags, name)
			return slices.Contains(g.Flags, name)
		})
	}
	show("Other flags", func(name string) bool { return !grouped[name] })
	c.SetUsageTemplate(strings.Replace(c.UsageTemplate(), all, strings.ReplaceAll(strings.Join(parts, "\n\n"), "{{", "{{\"{{\"}}"), 1))
}

// helpColumns is the width of grouped flags.
const helpColumns = 120
