//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package coefficients

import (
	"math/bits"
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// AVX-512 can spread bytes or words by a mask, and multiply matrices of bits.
func init() {
	byLevel[kernel.AVX512] = &kernels{spread: spreadAVX512, unpack: unpackAVX512, expand: expandAVX512, list: listAVX512}
}

// constants512 are constants of the kernels here.
var constants512 = makeConstants512()

type constantsAVX512 struct {
	shifts    [8]uint64 // shifts of a bundle's widths to the lowest bits
	planes    [16]int8  // index: width less one; the bytes of a matrix for the planes, the sign first, the lowest bit last
	identity  [64]uint8 // the 8×8 unit matrix of bits, eight times: multiplied by planes it gives values
	spreadBit [8]uint64 // the matrix that adds bit 7 to all lower ones
	signBit   [8]uint64 // the matrix that leaves bit 7 alone, in bit 0
	rows      [64]uint8 // permutation of a pair from the order of bits to rows by blocks
}

func makeConstants512() *constantsAVX512 {
	t := new(constantsAVX512)
	var spread uint64
	for i := range 8 {
		t.shifts[i] = uint64(3 * i)
		mask := 1 // the sign's
		for bit := range i {
			mask |= 1 << (7 - bit)
		}
		t.planes[i] = int8(mask)
		// Byte 7-i of a matrix is the row of bit i: bit i itself, and bit 7.
		spread |= uint64(1<<i|1<<7) << (8 * (7 - i))
	}
	for i := range 8 {
		t.spreadBit[i], t.signBit[i] = spread, 1<<(7*8+7)
	}
	for i := range 64 {
		t.identity[i] = 1 << (i & 7)
	}
	for bit, index := range pairIndex {
		t.rows[index] = uint8(bit)
	}
	return t
}

func spreadAVX512(masks []pairMasks, codes, cells []byte) {
	in := start(cells)
	for i := range masks {
		code := codes[i]
		v := LoadUint16x16Array((*[16]uint16)(in)).Expand(Mask16x16FromBits(presences[code]))
		v.StoreArray((*[16]uint16)(unsafe.Pointer(&masks[i])))
		in = unsafe.Add(in, 2*int(cellsOf[code]))
	}
	ClearAVXUpperBits()
}

func unpackAVX512(values, widths, planes []byte, more int8) {
	if len(widths) == 0 {
		return
	}
	c := constants512
	shifts, seven := LoadUint64x8Array(&c.shifts), BroadcastUint64x8(7)
	layout, identity := LoadInt8x16Array(&c.planes), LoadUint8x64Array(&c.identity)
	spread, sign := LoadUint64x8Array(&c.spreadBit), LoadUint64x8Array(&c.signBit)
	flip := BroadcastUint8x64(uint8(more))
	in, out := start(planes), start(values)
	for i := 0; i < len(widths); i += widthsBytes {
		all := bundleWidths(widths[i:])
		w := BroadcastUint64x8(uint64(all)).ShiftRight(shifts).And(seven).TruncToUint8()
		at := layout.PermuteOrZero(w.BitsToInt8()).ToBits().ReshapeToUint64s().GetElem(0)
		v := LoadUint8x64Array((*[64]uint8)(in)).Expand(Mask8x64FromBits(at))
		v = identity.GaloisFieldAffineTransform(v.ReshapeToUint64s(), 0)
		negative := v.GaloisFieldAffineTransform(sign, 0)
		v = v.GaloisFieldAffineTransform(spread, 0).Add(flip.AndNot(negative))
		v.StoreArray((*[64]uint8)(out))
		in, out = unsafe.Add(in, planesBytes(all)), unsafe.Add(out, bundleValues)
	}
	ClearAVXUpperBits()
}

// expandAVX512 spreads a pair's values by its mask, puts them in rows, and widens them.
func expandAVX512(quads []*jpeg.Quad, masks []pairMasks, values, firsts []byte, dcs [][4]int16) int {
	rows := LoadUint8x64Array(&constants512.rows)
	first, dc := start(firsts), unsafe.Pointer(unsafe.SliceData(dcs))
	in := start(values)
	n := 0
	for i, q := range quads {
		m := &masks[i]
		out := unsafe.Pointer(q)
		v := LoadUint8x64Array((*[64]uint8)(unsafe.Add(in, n))).Expand(Mask8x64FromBits(m[0]))
		v = v.Or(LoadUint8x64Array((*[64]uint8)(unsafe.Add(first, firstValues*i))).Expand(Mask8x64FromBits(0xfff0)))
		v = v.Permute(rows)
		d := LoadInt16x32Array((*[32]int16)(unsafe.Add(dc, 8*i))).Expand(Mask16x32FromBits(0x01010101))
		v.GetLo().BitsToInt8().ExtendToInt16().Or(d).StoreArray((*[32]int16)(out))
		v.GetHi().BitsToInt8().ExtendToInt16().StoreArray((*[32]int16)(unsafe.Add(out, 64)))
		n += bits.OnesCount64(m[0])
		for pair := 1; pair < 4; pair++ {
			if m[pair] == 0 {
				continue
			}
			v := LoadUint8x64Array((*[64]uint8)(unsafe.Add(in, n))).Expand(Mask8x64FromBits(m[pair])).Permute(rows)
			v.GetLo().BitsToInt8().ExtendToInt16().StoreArray((*[32]int16)(unsafe.Add(out, 128*pair)))
			v.GetHi().BitsToInt8().ExtendToInt16().StoreArray((*[32]int16)(unsafe.Add(out, 128*pair+64)))
			n += bits.OnesCount64(m[pair])
		}
	}
	ClearAVXUpperBits()
	return n
}

// listAVX512 puts a pair's coefficients, as bytes, into the order of the mask's bits, and compresses them by the mask.
func listAVX512(values []byte, q *jpeg.Quad, pairs int, masks *pairMasks) (n int, large bool) {
	indices := LoadUint8x64Array(&pairIndex)
	var zero Int8x64
	var largest Uint8x64
	keep := ^uint64(0xffff)
	for pair := range pairs {
		p := unsafe.Add(unsafe.Pointer(q), 128*pair)
		lo := LoadInt16x32Array((*[32]int16)(p)).SaturateToInt8()
		hi := LoadInt16x32Array((*[32]int16)(unsafe.Add(p, 64))).SaturateToInt8()
		v := zero.SetLo(lo).SetHi(hi).Permute(indices)
		m := v.NotEqual(zero).ToBits() & keep
		keep, masks[pair] = ^uint64(0), m
		v = v.Add(v.Greater(zero).ToInt8x64()).Compress(Mask8x64FromBits(m))
		largest = largest.Max(v.Abs().ToBits())
		v.ToBits().StoreArray((*[64]uint8)(unsafe.Add(start(values), n)))
		n += bits.OnesCount64(m)
	}
	large = largest.Greater(BroadcastUint8x64(125)).ToBits() != 0
	ClearAVXUpperBits()
	return n, large
}
