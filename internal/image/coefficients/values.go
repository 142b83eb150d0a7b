package coefficients

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Values are stored in chunks of eight with the same width, 1 to 8, and eight chunks are a bundle: its widths, less one, take 24 bits, the
// first chunk's lowest. A chunk of width w has w bytes: bit i of the first is the sign of value i. Bits w-2 to 0 of the values follow,
// inverted if the value is negative. An incomplete last bundle has no planes for its missing chunks.
const (
	chunkValues  = 8
	bundleChunks = 8
	bundleValues = bundleChunks * chunkValues
	widthsBytes  = 3 // bytes of a bundle's widths
)

func bundles(values int) int { return (values + bundleValues - 1) / bundleValues }

func bundleWidths(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// planesBytes is the size of a complete bundle's planes.
func planesBytes(widths uint32) int {
	sums := widths&0o07070707 + widths>>3&0o07070707 // sums of two widths each, in six bits
	return bundleChunks + int(sums*0o01010101>>18&63)
}

// listPlanes is the size of a list's planes.
func listPlanes(widths []byte, values int) (n int) {
	for ; values >= bundleValues; values -= bundleValues {
		n += planesBytes(bundleWidths(widths))
		widths = widths[widthsBytes:]
	}
	if values > 0 {
		chunks := (values + chunkValues - 1) / chunkValues
		n += planesBytes(bundleWidths(widths)&(1<<(3*chunks)-1)) - (bundleChunks - chunks)
	}
	return n
}

// appendList adds a list to widths and planes. It may write zeros after the list.
func appendList(widths, planes, list []byte) (newWidths, newPlanes []byte) {
	list = append(list, make([]byte, -len(list)&(chunkValues-1))...)
	for len(list) > 0 {
		var all uint32
		bundle := list[:min(len(list), bundleValues)]
		list = list[len(bundle):]
		planes = slices.Grow(planes, bundleValues+8)
		for shift := 0; len(bundle) >= chunkValues; shift += 3 {
			x := binary.LittleEndian.Uint64(bundle)
			bundle = bundle[chunkValues:]
			negative := x & signBits
			x ^= negative - negative>>7
			used := x &^ signBits
			used |= used >> 32
			used |= used >> 16
			below := bits.Len8(uint8(used | used>>8)) // planes below the sign
			all |= uint32(below) << shift
			x = transpose8(x)
			n := len(planes)
			planes = planes[:n+9]
			planes[n] = byte(x >> 56)
			binary.BigEndian.PutUint64(planes[n+1:], x<<(8*(8-below)))
			planes = planes[:n+1+below]
		}
		widths = append(widths, byte(all), byte(all>>8), byte(all>>16))
	}
	return widths, planes
}
