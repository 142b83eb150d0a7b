package jpeg

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// adobeSegment is an APP14 segment with a colour transform.
func adobeSegment(transform byte) []byte {
	return append(append([]byte{0xff, markerAPP14, 0, 14}, "Adobe\x00\x64\x00\x00\x00\x00"...), transform)
}

// oddColours are files whose markers and component ids say differently what their colours are.
func oddColours(t *testing.T) (all []oddity) {
	for _, name := range []string{"baseline-1x1.jpg", "progressive-2x2.jpg", "magick-cmyk.jpg", "grey.jpg"} {
		data := golden(t, name)
		bare := data
		for _, m := range []byte{markerAPP0, markerAPP14} {
			if bytes.Contains(bare[:40], []byte{0xff, m}) {
				bare = without(bare, m)
			}
		}
		all = append(all, oddity{name + " without markers", bare, false})
		for _, transform := range []byte{0, 1, 2, 3, 255} {
			segment := adobeSegment(transform)
			all = append(all,
				oddity{fmt.Sprintf("%s, Adobe %d", name, transform), slices.Insert(bytes.Clone(bare), 2, segment...), false},
				oddity{fmt.Sprintf("%s, Adobe %d besides", name, transform), slices.Insert(bytes.Clone(data), 2, segment...), false})
		}
		short := append([]byte{0xff, markerAPP14, 0, 13}, adobeSegment(0)[4:15]...)
		all = append(all, oddity{name + ", Adobe cut short", slices.Insert(bytes.Clone(bare), 2, short...), false})
		if name != "baseline-1x1.jpg" {
			continue
		}
		for _, ids := range []string{"RGB", "rgb", "\x01\x22\x23", "\x00\x01\x02", "BGR"} {
			for _, from := range [][]byte{bare, data} {
				all = append(all, oddity{fmt.Sprintf("%s with ids %q", name, ids), withIDs(from, ids), false})
			}
		}
	}
	return all
}

// withIDs changes the ids of a file's three components.
func withIDs(data []byte, ids string) []byte {
	data = bytes.Clone(data)
	sof := bytes.Index(data, []byte{0xff, markerSOF0})
	sos := bytes.Index(data, []byte{0xff, markerSOS})
	for i := range 3 {
		data[sof+10+3*i], data[sos+5+2*i] = ids[i], ids[i]
	}
	return data
}

// oddSteps are files with quantisation steps that no encoder chooses: of 16 bits, and so large that products overflow.
func oddSteps(t *testing.T) (all []oddity) {
	rnd := rand.New(rand.NewPCG(30, 31))
	for _, name := range []string{"baseline-2x2.jpg", "baseline-1x1.jpg", "progressive-2x1.jpg", "grey.jpg", "optimised-restart-2x2.jpg"} {
		data := golden(t, name)
		for n := range 24 {
			changed, rest := []byte(nil), data
			for i := bytes.Index(rest, []byte{0xff, markerDQT}); i >= 0 && len(rest) > i+69; i = bytes.Index(rest, []byte{0xff, markerDQT}) {
				changed = append(append(changed, rest[:i]...), 0xff, markerDQT, 0, 131, 0x10|rest[i+4])
				for range 64 {
					step := rnd.Uint32() >> (16 + n%12)
					changed = append(changed, byte(step>>8), byte(step))
				}
				rest = rest[i+69:]
			}
			all = append(all, oddity{fmt.Sprintf("%s with wide steps, %d", name, n), append(changed, rest...), false})
		}
	}
	return all
}
