package cliutil

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/imgfeed/imgfeed/internal/version"
)

// newManualCommand returns a command that writes the manual pages and shell completions of its program, which a release holds. Help does not show it: it is for packagers.
func newManualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write manual pages and shell completions",
		Long:   "Write the manual pages to DIR/man/man1, and the completions of bash, zsh and fish to DIR/completions.",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual writes the pages of a command and its subcommands to dir/man/man1, named as git's are (imgshard-build.1), and its
// completions to dir/completions. The pages bear the date that SOURCE_DATE_EPOCH tells, else today's.
func writeManual(root *cobra.Command, dir string) error {
	pages, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	for _, folder := range []string{pages, completions} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true // cobra's mark, with today's date
	for _, cmd := range root.Commands() {
		cmd.Hidden = cmd.Hidden || cmd.Name() == "completion" // whose five pages say how to load what a package installs
	}
	header := &doc.GenManHeader{Section: "1", Manual: "imgfeed", Source: "imgfeed " + version.Get().Version}
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: pages, CommandSeparator: "-"}); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	name := root.Name()
	for file, write := range map[string]func(string) error{
		name + ".bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_" + name:     root.GenZshCompletionFile,
		name + ".fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := write(filepath.Join(completions, file)); err != nil {
			return fmt.Errorf("completions: %w", err)
		}
	}
	return nil
}
