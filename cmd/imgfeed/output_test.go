package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/imgshard"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/synth"
)

// TestLostOutput runs commands whose output finds no room on the disk: none may end well.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full: ", err)
	}
	defer full.Close()
	dir, path := t.TempDir(), socketPath(t)
	src, set, out := filepath.Join(dir, "src"), filepath.Join(dir, "set"), filepath.Join(dir, "out")
	testenv.Must(synth.Write(t.Context(), src, synth.Options{Classes: 2, Train: 2, Size: 20}))(t)
	outputOf(t, imgfeed("imgshard", "build", filepath.Join(src, "train"), "-o", set))
	serve := imgfeed("serve", set, "--socket", path)
	serve.Stdout = full
	start(t, serve)
	for _, line := range []string{
		"version", "version --json", "--help", "serve --help", "completion bash", "__complete serve --",
		"status --socket PATH", "status --socket PATH --json", "reload --socket PATH", "bench SET --seconds 0.05 --json", "bench SET --seconds 0.05",
		"imgshard build SRC -o OUT", "imgshard build SRC -o OUT --json", "imgshard build SRC -o OUT --force", "imgshard repack SET -o OUT2",
		"imgshard copy SET OUT3", "imgshard index SRC -o OUT4", "imgshard synth OUT5 --classes 1 --train 1 --val 0", "imgshard inspect SET",
		"imgshard inspect SRC --json", "imgshard stats SET", "imgshard stats SET --json", "imgshard stats SET -o -", "imgshard ls SET",
		"imgshard ls SET --json", "imgshard cat SET 0", "imgshard view SET -o -", "imgshard view SET -o OUT6.html", "imgshard verify SET",
		"imgshard verify SET --json",
	} {
		cmd := imgfeed(strings.Fields(strings.NewReplacer("PATH", path, "SET", set, "SRC", filepath.Join(src, "train"), "OUT", out).Replace(line))...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &log
		err := cmd.Run()
		testenv.Check(t, cmd.ProcessState.ExitCode() == 1 && strings.Contains(log.String(), "write /dev/stdout: no space left on device"),
			"%s: %v, %s", line, err, &log)
	}
	serve.Process.Signal(syscall.SIGTERM)
	err = serve.Wait()
	testenv.Check(t, serve.ProcessState.ExitCode() == 1, "serve, whose first lines are lost: %v", err)
}

// TestServeOutlivesItsReader serves on, and ends well, when the reader of its first lines has gone.
func TestServeOutlivesItsReader(t *testing.T) {
	t.Parallel()
	reader, writer := testenv.Must2(os.Pipe())(t)
	reader.Close()
	serve := imgfeed("serve", oneSet(t), "--socket", socketPath(t))
	serve.Stdout = writer
	start(t, serve)
	writer.Close()
	serve.Process.Signal(syscall.SIGTERM)
	testenv.OK(t, serve.Wait(), "%s", serve.Stderr)
}

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
		status := cliutil.Report(&out, cmd, err)
		testenv.Check(t, status == 2 && !strings.Contains(out.String(), secret), "%q: status %d, and it says %s", args, status, &out)
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
