package mask

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func made(width, height int) []byte {
	labels := make([]byte, width*height)
	for i := range labels {
		labels[i] = byte(i / 7 % 21)
	}
	return labels
}

func TestDecodeGivesTheLabelsBack(t *testing.T) {
	var d Decoder
	for _, size := range [][2]int{{1, 1}, {3, 2}, {640, 480}, {5, 7}} {
		want := made(size[0], size[1])
		stored := Append([]byte("before"), size[0], size[1], want)[len("before"):]
		testenv.Same(t, testenv.Must(d.Decode(stored, size[0], size[1]))(t), want, "%v: other labels came back", size)
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	var d Decoder
	stored := Append(nil, 320, 240, made(320, 240))
	decode := func() { testenv.Must(d.Decode(stored, 320, 240))(t) }
	decode()
	testenv.NoAllocations(t, 20, decode, "in the steady state")
}

func TestDecodeRefuses(t *testing.T) {
	whole := Append(nil, 4, 4, made(4, 4))
	larger := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(larger, 5)
	huge := bytes.Clone(whole)
	binary.LittleEndian.PutUint64(huge, 1<<63-1)
	for name, stored := range map[string][]byte{
		"empty": nil, "only a size": whole[:8], "cut": whole[:len(whole)-3], "another size": larger, "a huge size": huge,
		"garbage": append(bytes.Clone(whole[:8]), "garbage"...),
	} {
		var d Decoder
		testenv.Fails(d.Decode(stored, 4, 4))(t, nil, "%s: no error", name)
	}
	var d Decoder
	testenv.Fails(d.Decode(larger, 5, 4))(t, nil, "16 labels were taken for 20 pixels")
}

func FuzzDecode(f *testing.F) {
	f.Add(Append(nil, 4, 4, made(4, 4)))
	f.Add(Append(nil, 64, 1, made(64, 1)))
	f.Fuzz(func(t *testing.T, stored []byte) {
		w, h, err := Size(stored)
		if err != nil || w*h > 1<<20 {
			return
		}
		var d Decoder
		labels, err := d.Decode(stored, w, h)
		testenv.Check(t, err != nil || len(labels) == w*h, "%d labels of %d×%d pixels", len(labels), w, h)
	})
}
