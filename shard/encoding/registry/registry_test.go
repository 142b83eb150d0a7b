package registry

import (
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// TestMethods checks what everybody counts on: names and flags of one encoding alone, and manifests that read back as what the flags said.
func TestMethods(t *testing.T) {
	names, disk, flags := map[string]bool{}, map[string]bool{}, map[string]bool{"encoding": true}
	for _, m := range methods {
		if m.Name == "" || m.OnDisk == "" || m.Summary == "" || names[m.Name] || disk[m.OnDisk] {
			t.Errorf("%+v", m)
		}
		names[m.Name], disk[m.OnDisk] = true, true
		for _, o := range m.Options {
			if o.Help == "" || flags[o.Name] {
				t.Errorf("%s: option %+v", m.Name, o)
			}
			flags[o.Name] = true
		}
		for _, small := range []bool{false, true} {
			e := testenv.Must(m.New(nil, small))(t)
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
