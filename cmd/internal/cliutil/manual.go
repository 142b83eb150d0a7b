package cliutil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/imgfeed/imgfeed/internal/version"
)

// newManualCommand returns a command that writes the manual pages and shell completions of its program for a release.
// It is hidden, because it is for packagers.
func newManualCommand(manual Manual) *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write manual pages and shell completions",
		Long:   "Write the manual pages to DIR/man/man1, and the completions of bash, zsh and fish to DIR/completions.",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), manual, args[0]) },
	}
}

// writeManual writes the pages of a command and its subcommands to dir/man/man1, named as git's are (imgshard-build.1), and its
// completions to dir/completions. The pages bear the date of SOURCE_DATE_EPOCH, or today's.
func writeManual(root *cobra.Command, manual Manual, dir string) error {
	pages, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	for _, folder := range []string{pages, completions} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true // cobra's mark, with today's date
	for _, cmd := range root.Commands() {
		cmd.Hidden = cmd.Hidden || cmd.Name() == "completion" // packages install completions, so its pages are not needed
	}
	header := &doc.GenManHeader{Section: "1", Manual: "imgfeed", Source: "imgfeed " + version.Get().Version}
	if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: pages, CommandSeparator: "-"}); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	name := root.Name()
	list, err := filepath.Glob(filepath.Join(pages, "*.1"))
	for _, page := range list {
		more := ".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for a wrong command line, 130 after Ctrl-C.\n"
		if filepath.Base(page) == name+".1" {
			more += ".SH ENVIRONMENT\n" + manual.Environment + "\n.SH FILES\n" + manual.Files + "\n"
		}
		text, readErr := os.ReadFile(page)
		err = errors.Join(err, readErr, os.WriteFile(page, append(text, more...), 0o666))
	}
	if err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
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
