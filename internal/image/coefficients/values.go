package coefficients

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Values are stored in chunks of eight that share a width, 1 to 8, and eight chunks are a bundle: its widths, less one, are 24 bits, those
// of the first chunk lowest. A chunk of width w has w bytes: bit i of the first is the sign of value i, and then follow bits w-2 to 0 of the
// values, turned where the value is negative. The last chunks of a list that is not whole bundles are not there; nor are, then, their planes.
const (
	chunkValues  = 8
	bundleChunks = 8
	bundleValues = bundleChunks * chunkValues
	widthsBytes  = 3 // of a bundle
)

func bundles(values int) int { return (values + bundleValues - 1) / bundleValues }

// bundleWidths returns the widths of a bundle.
func bundleWidths(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// planesBytes is how many bytes the planes of a whole bundle take.
func planesBytes(widths uint32) int {
	sums := widths&0o07070707 + widths>>3&0o07070707 // of two widths each, in six bits
	return bundleChunks + int(sums*0o01010101>>18&63)
}

// listPlanes is how many bytes the planes of a list take.
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
