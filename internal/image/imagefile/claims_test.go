package imagefile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// enlarged returns a small file that says that it holds side × side pixels.
func enlarged(t *testing.T, data []byte, side int) []byte {
	t.Helper()
	data = bytes.Clone(data)
	little, big := binary.LittleEndian, binary.BigEndian
	switch Sniff(data) {
	case PNG:
		big.PutUint32(data[16:], uint32(side))
		big.PutUint32(data[20:], uint32(side))
		big.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	case BMP:
		little.PutUint32(data[18:], uint32(side))
		little.PutUint32(data[22:], uint32(side))
	case GIF:
		frame := bytes.Index(data, append([]byte{0x2c, 0, 0, 0, 0}, data[6:10]...))
		testenv.Require(t, frame >= 0, "no frame that fills the screen")
		for _, at := range []int{6, 8, frame + 5, frame + 7} {
			little.PutUint16(data[at:], uint16(side))
		}
	case JPEG:
		for at := 2; ; at += 2 + int(big.Uint16(data[at+2:])) {
			if kind := data[at+1]; kind == 0xc0 || kind == 0xc2 {
				big.PutUint16(data[at+5:], uint16(side))
				big.PutUint16(data[at+7:], uint16(side))
				break
			}
		}
	}
	return data
}

// TestSizesThatAreClaimed: a file of some bytes that says it holds 12,000 × 12,000 pixels is refused before there is room for them. Of WebP this can't
// be told: a colour that fills a lossless image has no bits, and a block of a lossy one a hundredth of one.
func TestSizesThatAreClaimed(t *testing.T) {
	const side = 12_000
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	forEachKind(t, func(name string, data, _ []byte) {
		if Sniff(data) == WebP || strings.Contains(name, "small-frame") {
			return
		}
		data = enlarged(t, data, side)
		d := NewDecoder(kernel.Active())
		for _, read := range []func() error{
			func() error { _, _, err := d.Check(nil, data); return err },
			func() error {
				if _, _, err := d.Open(Unknown, data, nil); err != nil || d.Raw() != nil {
					return err
				}
				return d.Decode(make([]byte, 3*side), 3*side, image.Rect(0, side-1, side, side))
			},
		} {
			metrics.Read(allocated)
			before := allocated[0].Value.Uint64()
			err := read()
			metrics.Read(allocated)
			n := allocated[0].Value.Uint64() - before
			testenv.Check(t, n <= 16<<20, "%s: %d bytes are allocated for a file of %d", name, n, len(data))
			testenv.Check(t, err != nil, "%s: a file of %d bytes holds %d pixels", name, len(data), side*side)
		}
	})
}
