package bytesize

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"512MiB": 512 << 20, "1GB": 1e9, "256mb": 256e6, "1.5k": 1536, "300000000": 300000000, "64 KiB": 64 << 10, "7B": 7, "8G": 8 << 30, "2tib": 2 << 40,
	} {
		var b Size
		err := b.Set(text)
		testenv.Check(t, err == nil && b == want, "%q: %d, %v, want %d", text, b, err, want)
	}
	for _, text := range []string{"", "MB", "-1MB", "0", "1XB", "nan", "1e300GB", "1GBMB"} {
		var b Size
		testenv.Check(t, b.Set(text) != nil, "%q is taken as %d", text, b)
	}
	for b, want := range map[Size]string{512 << 20: "512MiB", 1000: "1000"} {
		testenv.Equal(t, b.String(), want, "%d", int64(b))
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1281167: "1,281,167", -1234: "-1,234"} {
		testenv.Equal(t, Grouped(n), want, "%d", n)
	}
	for n, want := range map[int]string{0: "0 images", 1: "1 image", 2: "2 images", 12345: "12,345 images"} {
		testenv.Equal(t, Counted(n, "image", "images"), want, "%d images", n)
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 1023: "1,023 bytes", 1024: "1.0 KiB", 12_345_678: "11.8 MiB", 147_000_000_000: "136.9 GiB", 3 << 40: "3.0 TiB"} {
		testenv.Equal(t, Format(n), want, "%d bytes", n)
	}
}

func TestListed(t *testing.T) {
	for most, want := range map[int]string{1: "a and 2 more", 2: "a, b and 1 more", 3: "a, b, c", 4: "a, b, c"} {
		testenv.Equal(t, Listed([]string{"a", "b", "c"}, most), want, "the first %d", most)
	}
}
