//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"simd/archsimd"
	"unsafe"
)

func factors256(t *[16]int32) archsimd.Int16x16 {
	return archsimd.LoadInt32x8Array((*[8]int32)(t[:8])).ToBits().ReshapeToUint16s().BitsToInt16()
}

// splitLanes gathers the lower halves of both lanes before the upper ones.
var splitLanes = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}

func idctDCAVX2(q, quant *quad, dst []byte, stride int) {
	var samples [4]uint64
	for block := range samples {
		samples[block] = uint64(sampleOfDC(q[block*8]*quant[block*8])) * 0x0101010101010101
	}
	v := archsimd.LoadUint64x4Array(&samples).ReshapeToUint8s()
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for y := range 8 {
		v.StoreArray((*[32]uint8)(unsafe.Add(p, y*stride)))
	}
	*(*[32]int16)(q[:]) = [32]int16{}
}

func samples256(p unsafe.Pointer, i int) archsimd.Uint16x16 {
	return archsimd.LoadUint8x16Array((*[16]uint8)(unsafe.Add(p, i))).ExtendToUint16()
}

func upsampleH2V1AVX2(dst, row []byte, count int) {
	last := (count - 1) &^ 15
	_, _ = dst[2*last+31], row[last+17]
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(row))
	one, two, three := archsimd.BroadcastUint16x16(1), archsimd.BroadcastUint16x16(2), archsimd.BroadcastUint16x16(3)
	for i := 0; i < count; i += 16 {
		near := samples256(in, i+1).Mul(three)
		left := near.Add(samples256(in, i)).Add(one).ShiftAllRight(2)
		right := near.Add(samples256(in, i+2)).Add(two).ShiftAllRight(2)
		left.Or(right.ShiftAllLeft(8)).ReshapeToUint8s().StoreArray((*[32]uint8)(unsafe.Add(out, 2*i)))
	}
}

// splitBytes gathers the even bytes of each 128 bits before the odd ones.
var splitBytes = func() (t [32]int8) {
	for i := range t {
		t[i] = int8(i&7*2 + i>>3&1)
	}
	return t
}()

func upsampleH1V2AVX2(dst, near, far []byte, count, bias int) {
	last := (count - 1) &^ 31
	_, _, _ = dst[last+31], near[last+31], far[last+31]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, round := archsimd.BroadcastUint16x16(3), archsimd.BroadcastUint16x16(uint16(bias))
	split, lanes := archsimd.LoadInt8x32Array(&splitBytes), archsimd.LoadUint32x8Array(&splitLanes)
	for i := 0; i < count; i += 32 {
		v := samples256(a, i).Mul(three).Add(samples256(b, i)).Add(round).ShiftAllRight(2)
		w := samples256(a, i+16).Mul(three).Add(samples256(b, i+16)).Add(round).ShiftAllRight(2)
		v8 := v.Or(w.ShiftAllLeft(8)).ReshapeToUint8s().PermuteOrZeroGrouped(split)
		v8.ReshapeToUint32s().Permute(lanes).ReshapeToUint8s().StoreArray((*[32]uint8)(unsafe.Add(out, i)))
	}
}

func upsampleH2V2AVX2(dst, near, far []byte, count int) {
	last := (count - 1) &^ 15
	_, _, _ = dst[2*last+31], near[last+17], far[last+17]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, seven, eight := archsimd.BroadcastUint16x16(3), archsimd.BroadcastUint16x16(7), archsimd.BroadcastUint16x16(8)
	for i := 0; i < count; i += 16 {
		this := samples256(a, i+1).Mul(three).Add(samples256(b, i+1)).Mul(three)
		left := samples256(a, i).Mul(three).Add(samples256(b, i)).Add(eight)
		right := samples256(a, i+2).Mul(three).Add(samples256(b, i+2)).Add(seven)
		left, right = this.Add(left).ShiftAllRight(4), this.Add(right).ShiftAllRight(4)
		left.Or(right.ShiftAllLeft(8)).ReshapeToUint8s().StoreArray((*[32]uint8)(unsafe.Add(out, 2*i)))
	}
}

// rgbOrder256 are VPSHUFB indices from words of R | G<<8 (first two) and of B (last two), for eight pixels in each lane,
// to 24 bytes RGB: to the first 16 of them, and to the last 8 in the lower lane, the last 16 in the upper; -128 gives zero.
var rgbOrder256 = func() (t [4][32]int8) {
	for i := range 32 {
		for part := range 2 {
			k := i&15 + part*(16-i>>4*8)
			rg, b := int8(-128), int8(-128)
			switch {
			case k < 24 && k%3 < 2:
				rg = int8(k/3*2 + k%3)
			case k < 24:
				b = int8(k / 3 * 2)
			}
			t[part][i], t[2+part][i] = rg, b
		}
	}
	return t
}()

func ycbcrToRGBAVX2(dst, y, cb, cr []byte) {
	n := len(dst) / 3
	if n < 16 {
		ycbcrToRGBGeneric(dst, y, cb, cr)
		return
	}
	_, _, _ = y[n-1], cb[n-1], cr[n-1]
	out, py := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	pb, pr := unsafe.Pointer(unsafe.SliceData(cb)), unsafe.Pointer(unsafe.SliceData(cr))
	center, one, zero := archsimd.BroadcastInt16x16(128), archsimd.BroadcastInt16x16(1), archsimd.BroadcastInt16x16(0)
	kr, kb, kg := archsimd.BroadcastInt16x16(factorR), archsimd.BroadcastInt16x16(factorB), factors256(&factorsG)
	half, top := archsimd.BroadcastInt32x8(1<<15), archsimd.BroadcastInt16x16(255)
	for i := 0; ; i += 16 {
		i = min(i, n-16) // the last vector overlaps the one before
		yy := samples256(py, i).BitsToInt16()
		b := samples256(pb, i).BitsToInt16().Sub(center)
		r := samples256(pr, i).BitsToInt16().Sub(center)
		b2, r2 := b.Add(b), r.Add(r)
		red := yy.Add(r).Add(r2.MulHigh(kr).Add(one).ShiftAllRight(1))
		blue := yy.Add(b2).Add(b2.MulHigh(kb).Add(one).ShiftAllRight(1))
		lo := b.InterleaveLoGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		hi := b.InterleaveHiGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		green := yy.Sub(r).Add(lo.SaturateToInt16ConcatGrouped(hi))
		rg := red.Max(zero).Min(top).Or(green.Max(zero).Min(top).ShiftAllLeft(8)).ToBits().ReshapeToUint8s()
		bb := blue.Max(zero).Min(top).ToBits().ReshapeToUint8s()
		head := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder256[0])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder256[2])))
		tail := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder256[1])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder256[3])))
		p := unsafe.Add(out, 3*i)
		head.GetLo().StoreArray((*[16]uint8)(p))
		tail.GetLo().StoreArray((*[16]uint8)(unsafe.Add(p, 16))) // eight bytes, and eight that the next store writes
		head.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 24)))
		tail.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 32)))
		if i == n-16 {
			return
		}
	}
}

// grayOrder256 repeats each of 16 bytes three times: bytes 0 to 31, and 32 to 47.
var grayOrder256 = func() (t [64]int8) {
	for i := range 48 {
		t[i] = int8(i / 3)
	}
	return t
}()

func grayToRGBAVX2(dst, y []byte) {
	n := len(dst) / 3
	if n < 16 {
		grayToRGBGeneric(dst, y)
		return
	}
	_ = y[n-1]
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	order1 := archsimd.LoadInt8x32Array((*[32]int8)(grayOrder256[:]))
	order2 := archsimd.LoadInt8x32Array((*[32]int8)(grayOrder256[32:]))
	for i := 0; ; i += 16 {
		i = min(i, n-16)
		v := archsimd.LoadUint8x16Array((*[16]uint8)(unsafe.Add(in, i)))
		both := archsimd.Uint8x32{}.SetLo(v).SetHi(v)
		both.PermuteOrZeroGrouped(order1).StoreArray((*[32]uint8)(unsafe.Add(out, 3*i)))
		both.PermuteOrZeroGrouped(order2).GetLo().StoreArray((*[16]uint8)(unsafe.Add(out, 3*i+32)))
		if i == n-16 {
			return
		}
	}
}
