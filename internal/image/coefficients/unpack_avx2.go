//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package coefficients

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{spread: spreadAVX2, unpack: unpackAVX2, expand: expandAVX2, list: listAVX2}
}

// spreadAVX2 spreads eight cells at a time by byte look-ups.
func spreadAVX2(masks []pairMasks, codes, cells []byte) {
	in := start(cells)
	for i := range masks {
		present := presences[codes[i]]
		low, high := &spreadWords[present&255], &spreadWords[present>>8]
		out := unsafe.Pointer(&masks[i])
		StoreLane(TakeLane(LoadLane(in), LoadLane(unsafe.Pointer(&low.indices))), out)
		in = unsafe.Add(in, low.bytes)
		StoreLane(TakeLane(LoadLane(in), LoadLane(unsafe.Pointer(&high.indices))), unsafe.Add(out, 16))
		in = unsafe.Add(in, high.bytes)
	}
	Leave()
}

// unpackAVX2 moves the planes of two chunks to the bytes of each lane, and transposes them as matrices of bits.
func unpackAVX2(values, widths, planes []byte, more int8) {
	in, out := start(planes), start(values)
	m1, m2, m3 := BroadcastQwords(0x00AA00AA00AA00AA), BroadcastQwords(0x0000CCCC0000CCCC), BroadcastQwords(0x00000000F0F0F0F0)
	below, add := BroadcastBytes(127), BroadcastBytes(uint8(more))
	for i := 0; i < len(widths); i += widthsBytes {
		all := bundleWidths(widths[i:])
		for range 4 / Count {
			a := &planesOfTwo[all&63]
			all >>= 6
			next := unsafe.Add(in, a.bytes)
			var v Bytes
			if Count == 1 {
				v = TakeLanes(in, in, unsafe.Pointer(&a.indices), unsafe.Pointer(&a.indices))
				in = next
			} else {
				b := &planesOfTwo[all&63]
				all >>= 6
				v = TakeLanes(in, next, unsafe.Pointer(&a.indices), unsafe.Pointer(&b.indices))
				in = unsafe.Add(next, b.bytes)
			}
			x := v.ReshapeToUint64s()
			t := x.Xor(x.ShiftAllRight(7)).And(m1)
			x = x.Xor(t).Xor(t.ShiftAllLeft(7))
			t = x.Xor(x.ShiftAllRight(14)).And(m2)
			x = x.Xor(t).Xor(t.ShiftAllLeft(14))
			t = x.Xor(x.ShiftAllRight(28)).And(m3)
			v = x.Xor(t).Xor(t.ShiftAllLeft(28)).ReshapeToUint8s()
			negative := Negative(v)
			Store(v.Xor(negative.And(below)).Add(add.AndNot(negative)), out)
			out = unsafe.Add(out, 16*Count)
		}
	}
	Leave()
}

// expandAVX2 spreads the values of two columns of a row at a time, by eight bits of the mask, and joins four results to a row.
func expandAVX2(quads []*jpeg.Quad, masks []pairMasks, values, firsts []byte, dcs [][4]int16) int {
	in := start(values)
	n := 0
	for i, q := range quads {
		out := unsafe.Pointer(q)
		first := LoadLane(unsafe.Pointer(&firsts[firstValues*i]))
		row0, row1 := TakeLane(first, LoadLane(unsafe.Pointer(&firstRows[0]))), TakeLane(first, LoadLane(unsafe.Pointer(&firstRows[1])))
		for pair, m := range &masks[i] {
			if m == 0 && pair > 0 {
				continue
			}
			p := unsafe.Add(in, n)
			ends := bytesOfOnes(m)
			n += int(ends >> 56)
			if pair > 0 {
				row0 = spreadRowAVX2(p, m&255)
				row1 = spreadRowAVX2(unsafe.Add(p, ends&255), m>>8&255)
			}
			a0, a1 := row0, row1
			b0, b1 := spreadRowAVX2(unsafe.Add(p, ends>>8&255), m>>16&255), spreadRowAVX2(unsafe.Add(p, ends>>16&255), m>>24&255)
			c0, c1 := spreadRowAVX2(unsafe.Add(p, ends>>24&255), m>>32&255), spreadRowAVX2(unsafe.Add(p, ends>>32&255), m>>40&255)
			d0, d1 := spreadRowAVX2(unsafe.Add(p, ends>>40&255), m>>48&255), spreadRowAVX2(unsafe.Add(p, ends>>48&255), m>>56)
			StoreRow(a0, b0, c0, d0, unsafe.Add(out, 128*pair))
			StoreRow(a1, b1, c1, d1, unsafe.Add(out, 128*pair+64))
		}
		dc := &dcs[i]
		q[0], q[8], q[16], q[24] = dc[0], dc[1], dc[2], dc[3]
	}
	Leave()
	return n
}

// spreadRowAVX2 spreads values from p on to the set bits of an eight-bit mask.
func spreadRowAVX2(p unsafe.Pointer, mask uint64) Lane {
	return TakeLane(LoadHalfLane(p), LoadHalfLane(unsafe.Pointer(&spreadBytes[mask])))
}

// bytesOfOnes returns, in each byte, the number of set bits up to the end of that byte.
func bytesOfOnes(x uint64) uint64 {
	x -= x >> 1 & 0x5555555555555555
	x = x&0x3333333333333333 + x>>2&0x3333333333333333
	return (x + x>>4) & 0x0f0f0f0f0f0f0f0f * 0x0101010101010101
}

// listAVX2 puts a pair's coefficients, as bytes, into the order of the mask's bits, and gathers them by eight bits at a time.
func listAVX2(values []byte, q *jpeg.Quad, pairs int, masks *pairMasks) (n int, large bool) {
	largest := LoadLane(unsafe.Pointer(&smallBytes))
	for pair := range pairs {
		p := unsafe.Add(unsafe.Pointer(q), 128*pair)
		left0, right0 := LoadRow(p)
		left1, right1 := LoadRow(unsafe.Add(p, 64))
		a, b := JoinLanes(left0, left1)
		c, d := JoinLanes(right0, right1)
		if pair == 0 {
			a = ZeroLane()
		}
		m := OnesOfLane(a) | OnesOfLane(b)<<16 | OnesOfLane(c)<<32 | OnesOfLane(d)<<48
		masks[pair] = m
		out := unsafe.Add(start(values), n)
		ends := bytesOfOnes(m)
		n += int(ends >> 56)
		largest = largest.Max(gatherCellAVX2(a, m, out, unsafe.Add(out, ends&255)))
		largest = largest.Max(gatherCellAVX2(b, m>>16, unsafe.Add(out, ends>>8&255), unsafe.Add(out, ends>>16&255)))
		largest = largest.Max(gatherCellAVX2(c, m>>32, unsafe.Add(out, ends>>24&255), unsafe.Add(out, ends>>32&255)))
		largest = largest.Max(gatherCellAVX2(d, m>>48, unsafe.Add(out, ends>>40&255), unsafe.Add(out, ends>>48&255)))
	}
	large = OnesOfLane(largest.Xor(LoadLane(unsafe.Pointer(&smallBytes)))) != 0
	Leave()
	return n, large
}

// gatherCellAVX2 stores the bytes of a cell at the set bits of a mask, each of its two rows at its own address, and
// returns their distances from zero.
func gatherCellAVX2(cell Lane, m uint64, row0, row1 unsafe.Pointer) Lane {
	v := cell.BitsToInt8()
	v = v.Add(v.Greater(ZeroLane().BitsToInt8()).ToInt8x16())
	StoreLane(TakeLane(v.ToBits(), LoadHalfLane(unsafe.Pointer(&gatherBytes[0][m&255]))), row0)
	StoreLane(TakeLane(v.ToBits(), LoadHalfLane(unsafe.Pointer(&gatherBytes[1][m>>8&255]))), row1)
	return v.Abs().ToBits()
}
