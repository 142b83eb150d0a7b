package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
)

// TestSecretsAreRefused gives each command of both programs URLs with secrets, as each of its arguments and flags. All must be
// refused, and no secret printed.
func TestSecretsAreRefused(t *testing.T) {
	refuseSecrets(t, newRootCommand)
	refuseSecrets(t, imgshard.NewRoot)
}

func refuseSecrets(t *testing.T, newRoot func() *cobra.Command) {
	const secret = "hunter2"
	urls := []string{
		"https://user:" + secret + "@host/x", "s3://bucket/x?signature=" + secret, "https://host/x#" + secret, "https://host/%zz" + secret,
	}
	refused := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		cmd, err := root.ExecuteC()
		if status := cliutil.Report(&out, cmd, err); status != 2 || strings.Contains(out.String(), secret) {
			t.Errorf("%q: status %d, and it says %s", args, status, &out)
		}
	}
	for _, cmd := range newRoot().Commands() {
		var args []string
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		path := []string{cmd.Name()}
		if cmd.HasSubCommands() {
			cmd = cmd.Commands()[0]
			path = append(path, cmd.Name())
		}
		for _, word := range strings.Fields(cmd.Use)[1:] {
			if strings.HasPrefix(word, "-") {
				break
			}
			if !strings.HasPrefix(word, "[") {
				args = append(args, "x")
			}
		}
		for _, url := range urls {
			for i, word := range strings.Fields(cmd.Use)[1:] {
				if strings.HasPrefix(word, "-") {
					break
				}
				if given := append(append(path[:len(path):len(path)], args[:min(i, len(args))]...), url); !strings.Contains(word, "KEY") {
					refused(append(given, args[min(i+1, len(args)):]...)...)
				}
			}
			each := func(f *pflag.Flag) {
				if f.Name != "help" && f.Value.Type() != "bool" {
					refused(append(append(path[:len(path):len(path)], "--"+f.Name+"="+url), args...)...)
				}
			}
			cmd.LocalFlags().VisitAll(each)
			cmd.InheritedFlags().VisitAll(each)
		}
	}
	refused(urls[0])
}
