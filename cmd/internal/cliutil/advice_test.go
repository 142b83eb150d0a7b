package cliutil

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
		testenv.Check(t, strings.HasPrefix(got, c.want) && (got == "") == (c.want == ""),
			"%s, %q: %q, want %q", c.use, c.args, got, c.want)
	}
	testenv.OK(t, Writable("OUT", "s3://bucket/x"))
	testenv.Says(t, "a web server", Writable("OUT", "https://host/x"), "OUT https://host/x: nothing can be written there")
}
