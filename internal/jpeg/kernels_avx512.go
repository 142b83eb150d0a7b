//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"simd/archsimd"
	"unsafe"
)

func row512(q *quad, r int) archsimd.Int16x32 {
	return archsimd.LoadInt16x32Array((*[32]int16)(q[r*32:]))
}

func factors512(t *[16]int32) archsimd.Int16x32 {
	return archsimd.LoadInt32x16Array(t).ToBits().ReshapeToUint16s().BitsToInt16()
}

// clear512 zeroes the first rows of a quad.
func clear512(q *quad, rows int) {
	zero := archsimd.BroadcastInt16x32(0)
	for r := 0; r < rows; r++ {
		zero.StoreArray((*[32]int16)(q[r*32:]))
	}
}

func idctDCAVX512(q, quant *quad, dst []byte, stride int) {
	dc := row512(q, 0).Mul(row512(quant, 0)).ToBits().ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(archsimd.LoadInt8x64Array(&firstWord)).ToBits().ReshapeToUint16s().BitsToInt16()
	dc = dc.ShiftAllLeft(pass1Bits).AddSaturated(archsimd.BroadcastInt16x32(16)).ShiftAllRight(5)
	samples := dc.SaturateToInt8().Xor(archsimd.BroadcastInt8x32(-128))
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for y := range 8 {
		samples.StoreArray((*[32]int8)(unsafe.Add(p, y*stride)))
	}
	clear512(q, 1)
}

func samples512(p unsafe.Pointer, i int) archsimd.Uint16x32 {
	return archsimd.LoadUint8x32Array((*[32]uint8)(unsafe.Add(p, i))).ExtendToUint16()
}

func upsampleH2V1AVX512(dst, row []byte, count int) {
	last := (count - 1) &^ 31
	_, _ = dst[2*last+63], row[last+33]
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(row))
	one, two, three := archsimd.BroadcastUint16x32(1), archsimd.BroadcastUint16x32(2), archsimd.BroadcastUint16x32(3)
	for i := 0; i < count; i += 32 {
		near := samples512(in, i+1).Mul(three)
		left := near.Add(samples512(in, i)).Add(one).ShiftAllRight(2)
		right := near.Add(samples512(in, i+2)).Add(two).ShiftAllRight(2)
		left.Or(right.ShiftAllLeft(8)).ReshapeToUint8s().StoreArray((*[64]uint8)(unsafe.Add(out, 2*i)))
	}
}

func upsampleH1V2AVX512(dst, near, far []byte, count, bias int) {
	last := (count - 1) &^ 31
	_, _, _ = dst[last+31], near[last+31], far[last+31]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, round := archsimd.BroadcastUint16x32(3), archsimd.BroadcastUint16x32(uint16(bias))
	for i := 0; i < count; i += 32 {
		v := samples512(a, i).Mul(three).Add(samples512(b, i)).Add(round).ShiftAllRight(2)
		v.TruncToUint8().StoreArray((*[32]uint8)(unsafe.Add(out, i)))
	}
}

func upsampleH2V2AVX512(dst, near, far []byte, count int) {
	last := (count - 1) &^ 31
	_, _, _ = dst[2*last+63], near[last+33], far[last+33]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, seven, eight := archsimd.BroadcastUint16x32(3), archsimd.BroadcastUint16x32(7), archsimd.BroadcastUint16x32(8)
	for i := 0; i < count; i += 32 {
		this := samples512(a, i+1).Mul(three).Add(samples512(b, i+1)).Mul(three)
		left := samples512(a, i).Mul(three).Add(samples512(b, i)).Add(eight)
		right := samples512(a, i+2).Mul(three).Add(samples512(b, i+2)).Add(seven)
		left, right = this.Add(left).ShiftAllRight(4), this.Add(right).ShiftAllRight(4)
		left.Or(right.ShiftAllLeft(8)).ReshapeToUint8s().StoreArray((*[64]uint8)(unsafe.Add(out, 2*i)))
	}
}

// rgbOrder512 are indices into 32 bytes of R, 32 of G and 32 of B that interleave them to 96 bytes.
var rgbOrder512 = func() (t [128]uint8) {
	for i := range 96 {
		t[i] = uint8(i%3*32 + i/3)
	}
	return t
}()

func ycbcrToRGBAVX512(dst, y, cb, cr []byte) {
	n := len(dst) / 3
	if n < 32 {
		ycbcrToRGBAVX2(dst, y, cb, cr)
		return
	}
	_, _, _ = y[n-1], cb[n-1], cr[n-1]
	out, py := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	pb, pr := unsafe.Pointer(unsafe.SliceData(cb)), unsafe.Pointer(unsafe.SliceData(cr))
	center, one, zero := archsimd.BroadcastInt16x32(128), archsimd.BroadcastInt16x32(1), archsimd.BroadcastInt16x32(0)
	kr, kb, kg := archsimd.BroadcastInt16x32(factorR), archsimd.BroadcastInt16x32(factorB), factors512(&factorsG)
	half := archsimd.BroadcastInt32x16(1 << 15)
	order1 := archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder512[:]))
	order2 := archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder512[64:]))
	for i := 0; ; i += 32 {
		i = min(i, n-32) // the last vector overlaps the one before
		yy := samples512(py, i).BitsToInt16()
		b := samples512(pb, i).BitsToInt16().Sub(center)
		r := samples512(pr, i).BitsToInt16().Sub(center)
		b2, r2 := b.Add(b), r.Add(r)
		red := yy.Add(r).Add(r2.MulHigh(kr).Add(one).ShiftAllRight(1))
		blue := yy.Add(b2).Add(b2.MulHigh(kb).Add(one).ShiftAllRight(1))
		lo := b.InterleaveLoGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		hi := b.InterleaveHiGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		green := yy.Sub(r).Add(lo.SaturateToInt16ConcatGrouped(hi))
		var rg, bb archsimd.Uint8x64
		rg = rg.SetLo(red.Max(zero).ToBits().SaturateToUint8()).SetHi(green.Max(zero).ToBits().SaturateToUint8())
		bb = bb.SetLo(blue.Max(zero).ToBits().SaturateToUint8())
		rg.ConcatPermute(bb, order1).StoreArray((*[64]uint8)(unsafe.Add(out, 3*i)))
		rg.ConcatPermute(bb, order2).GetLo().StoreArray((*[32]uint8)(unsafe.Add(out, 3*i+64)))
		if i == n-32 {
			return
		}
	}
}

// grayOrder512 repeats each of 32 bytes three times.
var grayOrder512 = func() (t [128]uint8) {
	for i := range 96 {
		t[i] = uint8(i / 3)
	}
	return t
}()

func grayToRGBAVX512(dst, y []byte) {
	n := len(dst) / 3
	if n < 32 {
		grayToRGBGeneric(dst, y)
		return
	}
	_ = y[n-1]
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	order1 := archsimd.LoadUint8x64Array((*[64]uint8)(grayOrder512[:]))
	order2 := archsimd.LoadUint8x64Array((*[64]uint8)(grayOrder512[64:]))
	for i := 0; ; i += 32 {
		i = min(i, n-32)
		var v archsimd.Uint8x64
		v = v.SetLo(archsimd.LoadUint8x32Array((*[32]uint8)(unsafe.Add(in, i))))
		v.Permute(order1).StoreArray((*[64]uint8)(unsafe.Add(out, 3*i)))
		v.Permute(order2).GetLo().StoreArray((*[32]uint8)(unsafe.Add(out, 3*i+64)))
		if i == n-32 {
			return
		}
	}
}
