package pillowtest

import "testing"

func TestResamplerOf(t *testing.T) {
	for version, want := range map[string]string{
		"9.3.0": "", "9.4.0": "pillow-12", "10.0.0": "pillow-12", "12.3.1": "pillow-12", "13.0.0": "pillow-13", "14.1.0.dev0": "pillow-13", "": "", "x": "",
	} {
		if got := resamplerOf(version); got != want {
			t.Errorf("Pillow %q has the bits of %q, want %q", version, got, want)
		}
	}
}
