package registry

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/shard"
)

// TestMethods checks what everybody counts on: names and flags of one encoding alone, and manifests that read back as what the flags
// said.
func TestMethods(t *testing.T) {
	names, disk, flags := map[string]bool{}, map[string]bool{}, map[string]bool{"encoding": true}
	for _, m := range methods {
		if m.Name == "" || m.OnDisk == "" || m.Summary == "" || names[m.Name] || disk[m.OnDisk] {
			t.Errorf("%+v", m)
		}
		names[m.Name], disk[m.OnDisk] = true, true
		fs := pflag.NewFlagSet(m.Name, pflag.ContinueOnError)
		encode := m.Flags(fs)
		fs.VisitAll(func(f *pflag.Flag) {
			if flags[f.Name] {
				t.Errorf("two encodings have a flag --%s", f.Name)
			}
			flags[f.Name] = true
		})
		for _, ready := range []bool{false, true} {
			e, err := encode(ready)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Open(e.Stored())
			if err != nil || again.String() != e.String() || e.Stored().Name != m.OnDisk || !strings.HasPrefix(e.String(), m.Name) {
				t.Errorf("%v reads back as %v, %v", e, again, err)
			}
		}
	}
	if !Default().HoldsOriginals() {
		t.Errorf("unless told otherwise %v is packed, which loses the files", Default())
	}
}

// TestFlags gives command lines, and wants the encoding or a word of the error.
func TestFlags(t *testing.T) {
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
		{"--encoding pixels", false, true, "pixels (bitpack, resize none)"},
		{"--resize max:500 --codec zstd", false, true, "pixels (zstd, resize max:500 bilinear, pillow-13)"},
		{"--encoding pixels --resampler pillow-12 --interpolation box", false, false, "pixels (bitpack, resize 256 box, pillow-12)"},
		{"--codec lz4", false, false, "--codec: for --encoding pixels; original stores the files' own bytes"},
		{"--encoding original --codec lz4 --resize 3", false, true, "--codec, --resize: for --encoding pixels"},
		{"--encoding jpeg", false, false, "--encoding jpeg: want original"},
		{"--encoding pixels --resampler pillow-1", false, false, "--resampler: "},
	} {
		fs := pflag.NewFlagSet("build", pflag.ContinueOnError)
		f := AddFlags(fs, c.repack)
		if err := fs.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		e, err := f.Encoding(c.small)
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

// TestDescribe describes what cannot be opened by its name.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		stored shard.Encoding
		want   string
	}{
		{shard.Encoding{Name: "jpeg"}, "original"},
		{shard.Encoding{Name: "pixels", Params: []byte(`{"codec":"lz4","resize":"8x9","interpolation":"box"}`)}, "pixels (lz4, resize 8x9 box, pillow-12)"},
		{shard.Encoding{Name: "pixels", Params: []byte(`{"codec":"brotli"}`)}, "pixels"},
		{shard.Encoding{Name: "wavelets"}, "wavelets"},
	} {
		if got := Describe(c.stored); got != c.want {
			t.Errorf("%v is described as %s, want %s", c.stored, got, c.want)
		}
	}
}
