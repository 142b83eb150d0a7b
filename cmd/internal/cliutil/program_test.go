package cliutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestKernelsOfTheEnvironment refuses a wrong level in every command, since it would silently mean the slowest.
func TestKernelsOfTheEnvironment(t *testing.T) {
	for value, want := range map[string]string{"": "", "generic": "", "sse9": `IMGFEED_KERNELS: kernel: unknown level "sse9"`} {
		t.Setenv(kernel.EnvVar, value)
		ran := false
		root := Root(&cobra.Command{Use: "program"}, Manual{}, &cobra.Command{Use: "run", RunE: func(*cobra.Command, []string) error { ran = true; return nil }})
		root.SetArgs([]string{"run"})
		err := root.Execute()
		testenv.Check(t, ran == (want == "") && (err == nil || strings.HasPrefix(err.Error(), want)), "%q: %v, ran %v", value, err, ran)
	}
}

// program returns a command with a subcommand, and a hidden one that writes its manual.
func program() *cobra.Command {
	root := &cobra.Command{Use: "tool", Short: "Do things", SilenceUsage: true, SilenceErrors: true}
	sub := &cobra.Command{Use: "pack SRC", Short: "Pack a source", Run: func(*cobra.Command, []string) {}}
	sub.Flags().Int("world", 1, "deal the samples to `N` partitions")
	root.AddCommand(sub, newManualCommand(Manual{Environment: "TOOL_HOME: the folder.", Files: "/etc/tool: settings."}))
	return root
}

// TestManual writes everything twice: a page for each command that help shows, completions for three shells, the same bytes again.
func TestManual(t *testing.T) {
	want := map[string]string{
		"man/man1/tool.1":       ".SH ENVIRONMENT\nTOOL_HOME: the folder.\n.SH FILES\n/etc/tool: settings.\n",
		"man/man1/tool-pack.1":  ".SH EXIT STATUS\n0 for success",
		"completions/tool.bash": "__start_tool",
		"completions/_tool":     "#compdef tool",
		"completions/tool.fish": "complete -c tool",
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var before map[string]string
	for range 2 {
		dir := t.TempDir()
		root := program()
		root.SetArgs([]string{"manual", dir})
		testenv.OK(t, root.Execute())
		files := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			files[name] = string(text)
			return err
		})
		testenv.OK(t, err)
		for name, part := range want {
			testenv.Check(t, strings.Contains(files[name], part), "%s: %q, want %q in it", name, files[name], part)
		}
		for name, text := range files {
			testenv.Check(t, !strings.Contains(name, "manual") && !strings.Contains(name, "completion-"),
				"%s: a page for a command that help does not show", name)
			testenv.Check(t, before == nil || before[name] == text, "%s has other bytes the second time", name)
		}
		before = files
	}
}
