package bytesize

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"512MiB": 512 << 20, "1GB": 1e9, "256mb": 256e6, "1.5k": 1536, "300000000": 300000000, "64 KiB": 64 << 10, "7B": 7, "8G": 8 << 30, "2tib": 2 << 40,
	} {
		var b Size
		if err := b.Set(text); err != nil || b != want {
			t.Errorf("%q: %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "MB", "-1MB", "0", "1XB", "nan", "1e300GB", "1GBMB"} {
		var b Size
		if err := b.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, b)
		}
	}
	for b, want := range map[Size]string{512 << 20: "512MiB", 1000: "1000"} {
		if got := b.String(); got != want {
			t.Errorf("%d is written %q, want %q", int64(b), got, want)
		}
	}
}
