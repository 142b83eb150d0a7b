package imgshard

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestEncodingFlags gives command lines, and wants the encoding or the beginning of the error.
func TestEncodingFlags(t *testing.T) {
	for _, c := range []struct {
		args   string
		repack bool
		small  bool
		want   string
	}{
		{"", false, false, "original"},
		{"", false, true, "pixels (bitpack, resize none)"},
		{"", true, false, "pixels (bitpack, resize 256 bilinear, pillow-13)"},
		{"--encoding original", false, true, "original"},
		{"--encoding original", true, false, "original"},
		{"--codec zstd", false, true, "pixels (zstd, resize none)"},
		{"--resize 16", false, true, "pixels (bitpack, resize 16 bilinear, pillow-13)"},
		{"--encoding pixels", false, true, "pixels (bitpack, resize none)"},
		{"--resize max:500 --codec zstd", false, true, "pixels (zstd, resize max:500 bilinear, pillow-13)"},
		{"--encoding pixels --resampler pillow-12 --interpolation box", false, false, "pixels (bitpack, resize 256 box, pillow-12)"},
		{"--codec lz4", false, false, "--codec: for --encoding pixels; original stores the files' own bytes"},
		{"--encoding original --codec lz4 --resize 3", false, true, "--resize, --codec: for --encoding pixels"},
		{"--encoding jpeg", false, false, "--encoding jpeg: want original"},
		{"--resize big", true, false, "--resize \"big\": want 256"},
		{"--interpolation sharp", true, false, "--interpolation: "},
		{"--encoding pixels --resampler pillow-1", false, false, "--resampler: "},
	} {
		fl := pflag.NewFlagSet("build", pflag.ContinueOnError)
		var f packFlags
		f.registerEncoding(fl, c.repack)
		testenv.OK(t, fl.Parse(strings.Fields(c.args)))
		got := ""
		e, err := f.chooseEncoding(c.small)
		if err != nil {
			got = err.Error()
		} else {
			got = e.String()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q, repack %v, small %v: %s, want %s", c.args, c.repack, c.small, got, c.want)
		}
	}
}
