package cliutil

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestSeed(t *testing.T) {
	draws, packs := Seed(new(int64)), Seed(new(uint64))
	for _, test := range []struct {
		text         string
		draws, packs bool
	}{
		{"0", true, true}, {"7", true, true}, {"0x10", true, true}, {"9223372036854775807", true, true},
		{"-1", true, false}, {"-9223372036854775808", true, false},
		{"9223372036854775808", false, false}, {"-9223372036854775809", false, false}, {"1.5", false, false}, {"1e3", false, false}, {"", false, false}, {" 5", false, false},
	} {
		testenv.Equal(t, draws.Set(test.text) == nil, test.draws, "draws: %q is taken", test.text)
		testenv.Equal(t, packs.Set(test.text) == nil, test.packs, "packs: %q is taken", test.text)
	}
	testenv.Check(t, draws.String() == "-9223372036854775808" && packs.String() == "9223372036854775807",
		"the last ones are %v and %v", draws, packs)
}

// TestHelpFitsTheTerminal asks for a help with and without groups at several widths: nothing is wider, and no word is lost.
func TestHelpFitsTheTerminal(t *testing.T) {
	command := func(name string) *cobra.Command {
		c := &cobra.Command{
			Use: name, Short: "Pack a dataset into a shard set, once, for imgfeed to serve, and list the rejected files", RunE: func(*cobra.Command, []string) error { return nil },
			Long:    "One paragraph, which is broken\nby hand in the source.\n\n" + strings.Repeat("Many words … follow here. ", 12),
			Example: "  tool " + name + " /data/train --encoding pixels --resize 256 --partitions 8 -o /nvme/train-pixels --jobs 12",
		}
		c.Flags().String("encoding", "original", "how images are stored: "+strings.Repeat("in one way or another ", 8)+"as they are")
		c.Flags().Bool("force", false, "replace a finished set")
		return c
	}
	grouped := command("grouped")
	SetGroups(grouped, Group{Title: "Output", Flags: []string{"force"}})
	root := Root(&cobra.Command{Use: "tool", Short: "Do things"}, Manual{}, command("plain"), grouped)
	for _, width := range []string{"40", "80", "100", "120"} {
		t.Setenv("COLUMNS", width)
		for _, args := range [][]string{{"--help"}, {"plain", "--help"}, {"grouped", "--help"}, {"help", "grouped"}} {
			var out bytes.Buffer
			root.SetArgs(args)
			root.SetOut(&out)
			testenv.OK(t, root.Execute())
			want := 0
			fmt.Sscan(width, &want)
			for line := range strings.Lines(out.String()) {
				n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
				testenv.Check(t, n <= want, "%v at %s columns: %d: %s", args, width, n, line)
			}
			words := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), " \\\n", " ")), " ")
			for _, text := range []string{"which is broken by hand in the source.", "--resize 256 --partitions 8 -o /nvme/train-pixels --jobs 12", "another as they are (default"} {
				testenv.Check(t, len(args) != 2 || strings.Contains(words, text), "%v at %s columns: no %q in %s", args, width, text, out.String())
			}
		}
	}
	t.Setenv("COLUMNS", "60")
	const given = "  -o, --output string   where the set is written\n"
	const want = "  -o, --output string   where the set is\n                        written\n"
	testenv.Equal(t, Wrap(given), given, "60 columns")
	t.Setenv("COLUMNS", "46")
	testenv.Equal(t, Wrap(given), want, "46 columns")
}

// TestChoices refuses values of flags of every type with those that it takes.
func TestChoices(t *testing.T) {
	for flag, want := range map[string]string{
		"--log-level=loud": `--log-level "loud": want debug, info, warn or error`,
		"--layout=x":       `--layout "x": want a whole number from 0 to 1`, // its own words
		"--bool=maybe":     `--bool "maybe": want true or false`,
		"--list=1,z":       `--list "1,z": want a whole number`,
		"--rate=fast":      `--rate "fast": want a number`,
	} {
		c := &cobra.Command{Use: "run", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().TextVar(new(slog.Level), "log-level", slog.LevelInfo, "")
		c.Flags().Var(Int(new(int), 0, 1), "layout", "")
		c.Flags().Bool("bool", false, "")
		c.Flags().IntSlice("list", nil, "")
		c.Flags().Float64("rate", 0, "")
		root := Root(&cobra.Command{Use: "tool"}, Manual{}, c)
		root.SetArgs([]string{"run", flag})
		testenv.Equal(t, fmt.Sprint(root.Execute()), want, "%s", flag)
	}
}

func TestFlag(t *testing.T) {
	cmd := &cobra.Command{Use: "serve [SET]"}
	cmd.Flags().Int("threads", 0, "")
	cmd.Flags().Int("secret", 0, "")
	testenv.OK(t, cmd.Flags().MarkHidden("secret"))
	for given, want := range map[string]string{
		"--thread=3": "unknown flag: --thread (did you mean --threads?)",
		"--secre=3":  "unknown flag: --secre",
		"-t":         "unknown shorthand flag: 't' in -t (put an argument that begins with - after --: serve … -- -t)",
		"--socket":   "unknown flag: --socket",
	} {
		testenv.Equal(t, adviseFlag(cmd, cmd.ParseFlags([]string{given})).Error(), want, "%s", given)
	}
}

// TestArgs refuses what counts as not given, and addresses where paths are meant, by name.
func TestArgs(t *testing.T) {
	t.Chdir(t.TempDir())
	testenv.OK(t, os.MkdirAll("s3:/there", 0o700))
	for _, c := range []struct {
		use  string
		args []string
		want string
	}{
		{"ls SET [KEY|INDEX]...", []string{"set", "s3://key", "7"}, ""},
		{"ls SET [KEY|INDEX]...", []string{""}, "SET is empty (an unset variable?): name one"},
		{"ls SET [KEY|INDEX]...", []string{"set", "7", ""}, "KEY|INDEX is empty (an unset variable?): name one"},
		{"serve [SET]", []string{}, ""},
		{"serve [SET]", []string{""}, "SET is empty"},
		{"serve [SET]", []string{"s3://bucket/x"}, ""},
		{"serve [SET]", []string{"ftp://host/x"}, "SET ftp://: an unknown kind of URL: want a folder or one of gs://, hf://, http://, https://, s3://"},
		{"cat FILE", []string{"s3://bucket/x"}, "FILE s3://bucket/x is an address, but must be a path of this machine: copy or mount"},
		{"serve [SET]", []string{"file:///data/x"}, "SET file:///data/x is an address: give only the path, /data/x"},
		{"serve [SET]", []string{"s3://there"}, ""},
		{"top [SERVER]", []string{"http://host:9090"}, ""},
		{"build SRC... [-o OUT]", []string{"s3://bucket/a", "ftp://b"}, "SRC ftp://: an unknown kind of URL"},
		{"serve [SET]", []string{"x", "--split="}, "--split is empty (an unset variable?): name one, or omit the flag"},
		{"serve [SET]", []string{"x", "--from=a", "--from="}, "--from is empty"},
		{"serve [SET]", []string{"x", "--split=a", "--from=b"}, ""},
	} {
		var got string
		cmd := &cobra.Command{Use: c.use, SilenceErrors: true, SilenceUsage: true, Args: checkArgs(cobra.ArbitraryArgs), Run: func(*cobra.Command, []string) {}}
		cmd.Flags().String("split", "", "")
		cmd.Flags().StringArray("from", nil, "")
		cmd.SetArgs(c.args)
		if err := cmd.Execute(); err != nil {
			got = err.Error()
		}
		testenv.Check(t, strings.HasPrefix(got, c.want) && (got == "") == (c.want == ""), "%s, %q: %q, want %q", c.use, c.args, got, c.want)
	}
	testenv.OK(t, Writable("OUT", "s3://bucket/x"))
	testenv.Says(t, "a web server", Writable("OUT", "https://host/x"), "OUT https://host/x: nothing can be written there")
}

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
