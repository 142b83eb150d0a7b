package cliutil

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// TestKernelsOfTheEnvironment refuses a wrong level in every command, since it would silently mean the slowest.
func TestKernelsOfTheEnvironment(t *testing.T) {
	for value, want := range map[string]string{"": "", "generic": "", "sse9": `IMGFEED_KERNELS: kernel: unknown level "sse9"`} {
		t.Setenv(kernel.EnvVar, value)
		ran := false
		root := Root(&cobra.Command{Use: "program"}, Manual{}, &cobra.Command{Use: "run", RunE: func(*cobra.Command, []string) error { ran = true; return nil }})
		root.SetArgs([]string{"run"})
		if err := root.Execute(); ran != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, ran %v", value, err, ran)
		}
	}
}
