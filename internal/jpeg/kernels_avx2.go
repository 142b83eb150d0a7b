//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"simd/archsimd"
	"unsafe"
)

type (
	words256 = archsimd.Int16x16
	ints256  = archsimd.Int32x8
)

// row256 loads row r of blocks half and half+1 of a quad; half is 0 or 2.
func row256(q *quad, r, half int) words256 {
	return archsimd.LoadInt16x16Array((*[16]int16)(q[r*32+half*8:]))
}

func factors256(t *[16]int32) words256 {
	return archsimd.LoadInt32x8Array((*[8]int32)(t[:8])).ToBits().ReshapeToUint16s().BitsToInt16()
}

func lo16x256(a, b words256) words256 { return a.InterleaveLoGrouped(b) }
func hi16x256(a, b words256) words256 { return a.InterleaveHiGrouped(b) }
func lo32x256(a, b words256) words256 {
	return a.AsInt32x8().InterleaveLoGrouped(b.AsInt32x8()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func hi32x256(a, b words256) words256 {
	return a.AsInt32x8().InterleaveHiGrouped(b.AsInt32x8()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func lo64x256(a, b words256) words256 {
	return a.AsInt64x4().InterleaveLoGrouped(b.AsInt64x4()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func hi64x256(a, b words256) words256 {
	return a.AsInt64x4().InterleaveHiGrouped(b.AsInt64x4()).ToBits().ReshapeToUint16s().BitsToInt16()
}

// even256 returns the even terms of interleaved inputs (0+4, 0-4) and (2, 6).
func even256(a, b words256, round ints256) (e0, e1, e2, e3 ints256) {
	t0 := a.DotProductPairs(factors256(&evenSums[0])).Add(round)
	t1 := a.DotProductPairs(factors256(&evenSums[1])).Add(round)
	t3 := b.DotProductPairs(factors256(&even26[0]))
	t2 := b.DotProductPairs(factors256(&even26[1]))
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

// odd256 returns the odd terms of interleaved inputs (7+3, 5+1), (7, 1) and (5, 3).
func odd256(z, c, d words256) (o0, o1, o2, o3 ints256) {
	z3, z4 := z.DotProductPairs(factors256(&oddSums[0])), z.DotProductPairs(factors256(&oddSums[1]))
	return c.DotProductPairs(factors256(&odd71[0])).Add(z3), d.DotProductPairs(factors256(&odd53[0])).Add(z4),
		d.DotProductPairs(factors256(&odd53[1])).Add(z3), c.DotProductPairs(factors256(&odd71[1])).Add(z4)
}

// pack256 finishes the first pass: two halves are shifted and saturated to 16 bits.
func pack256(lo, hi ints256) words256 {
	return lo.ShiftAllRight(shift1).SaturateToInt16ConcatGrouped(hi.ShiftAllRight(shift1))
}

// samplePack256 finishes the second pass, whose rounding has moved samples to 0..255: two halves are shifted and clamped.
func samplePack256(lo, hi ints256) words256 {
	v := lo.ShiftAllRight(shift2).SaturateToUint16ConcatGrouped(hi.ShiftAllRight(shift2))
	return v.Min(archsimd.BroadcastUint16x16(255)).BitsToInt16()
}

// pairBytes256 makes words of the bytes in a and b.
func pairBytes256(a, b words256) words256 { return a.Or(b.ShiftAllLeft(8)) }

// splitLanes gathers the lower halves of both lanes before the upper ones.
var splitLanes = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}

// storeRows256 stores two rows of 16 samples, which have eight bytes in each lane.
func storeRows256(v words256, p unsafe.Pointer, stride int) {
	rows := v.AsUint32x8().Permute(archsimd.LoadUint32x8Array(&splitLanes)).ReshapeToUint8s()
	rows.GetLo().StoreArray((*[16]uint8)(p))
	rows.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, stride)))
}

// large256 reports whether a shift by pass1Bits would overflow some first-row coefficient: then it matters whether a block
// has others, and the generic transform is left to tell.
func large256(r0 words256) bool {
	return !r0.ShiftAllLeft(pass1Bits).ShiftAllRight(pass1Bits).Xor(r0).IsZero()
}

// clear256 zeroes the first rows of two blocks.
func clear256(q *quad, half, rows int) {
	zero := archsimd.BroadcastInt16x16(0)
	for r := 0; r < rows; r++ {
		zero.StoreArray((*[16]int16)(q[r*32+half*8:]))
	}
}

// idctAVX2 has a block in each of the two 128-bit lanes, twice. It is one long function because the eight rows would
// travel through memory between shorter ones.
func idctAVX2(q, quant *quad, dst []byte, stride int) {
	if large256(row256(q, 0, 0).Mul(row256(quant, 0, 0))) || large256(row256(q, 0, 2).Mul(row256(quant, 0, 2))) {
		idctGeneric(q, quant, dst, stride)
		return
	}
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for half := 0; half < 4; half += 2 {
		r0 := row256(q, 0, half).Mul(row256(quant, 0, half))
		r1 := row256(q, 1, half).Mul(row256(quant, 1, half))
		r2 := row256(q, 2, half).Mul(row256(quant, 2, half))
		r3 := row256(q, 3, half).Mul(row256(quant, 3, half))
		r4 := row256(q, 4, half).Mul(row256(quant, 4, half))
		r5 := row256(q, 5, half).Mul(row256(quant, 5, half))
		r6 := row256(q, 6, half).Mul(row256(quant, 6, half))
		r7 := row256(q, 7, half).Mul(row256(quant, 7, half))
		clear256(q, half, 8)
		round := archsimd.BroadcastInt32x8(round1)
		s04, d04, s73, s51 := r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
		e0, e1, e2, e3 := even256(lo16x256(s04, d04), lo16x256(r2, r6), round)
		o0, o1, o2, o3 := odd256(lo16x256(s73, s51), lo16x256(r7, r1), lo16x256(r5, r3))
		f0, f1, f2, f3 := even256(hi16x256(s04, d04), hi16x256(r2, r6), round)
		p0, p1, p2, p3 := odd256(hi16x256(s73, s51), hi16x256(r7, r1), hi16x256(r5, r3))
		r0, r7 = pack256(e0.Add(o3), f0.Add(p3)), pack256(e0.Sub(o3), f0.Sub(p3))
		r1, r6 = pack256(e1.Add(o2), f1.Add(p2)), pack256(e1.Sub(o2), f1.Sub(p2))
		r2, r5 = pack256(e2.Add(o1), f2.Add(p1)), pack256(e2.Sub(o1), f2.Sub(p1))
		r3, r4 = pack256(e3.Add(o0), f3.Add(p0)), pack256(e3.Sub(o0), f3.Sub(p0))

		// Transpose each lane's 8×8 words.
		a0, a1, a2, a3 := lo16x256(r0, r1), hi16x256(r0, r1), lo16x256(r2, r3), hi16x256(r2, r3)
		b0, b1, b2, b3 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		a0, a1, a2, a3 = lo16x256(r4, r5), hi16x256(r4, r5), lo16x256(r6, r7), hi16x256(r6, r7)
		b4, b5, b6, b7 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		r0, r1, r2, r3 = lo64x256(b0, b4), hi64x256(b0, b4), lo64x256(b1, b5), hi64x256(b1, b5)
		r4, r5, r6, r7 = lo64x256(b2, b6), hi64x256(b2, b6), lo64x256(b3, b7), hi64x256(b3, b7)

		// The words of a vector are now in a column; pairs of columns are joined as bytes, which halves the way back.
		round = archsimd.BroadcastInt32x8(round2)
		s04, d04, s73, s51 = r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
		e0, e1, e2, e3 = even256(lo16x256(s04, d04), lo16x256(r2, r6), round)
		o0, o1, o2, o3 = odd256(lo16x256(s73, s51), lo16x256(r7, r1), lo16x256(r5, r3))
		f0, f1, f2, f3 = even256(hi16x256(s04, d04), hi16x256(r2, r6), round)
		p0, p1, p2, p3 = odd256(hi16x256(s73, s51), hi16x256(r7, r1), hi16x256(r5, r3))
		s0, s7 := samplePack256(e0.Add(o3), f0.Add(p3)), samplePack256(e0.Sub(o3), f0.Sub(p3))
		s1, s6 := samplePack256(e1.Add(o2), f1.Add(p2)), samplePack256(e1.Sub(o2), f1.Sub(p2))
		s2, s5 := samplePack256(e2.Add(o1), f2.Add(p1)), samplePack256(e2.Sub(o1), f2.Sub(p1))
		s3, s4 := samplePack256(e3.Add(o0), f3.Add(p0)), samplePack256(e3.Sub(o0), f3.Sub(p0))
		c01, c23, c45, c67 := pairBytes256(s0, s1), pairBytes256(s2, s3), pairBytes256(s4, s5), pairBytes256(s6, s7)
		a0, a1, a2, a3 = lo16x256(c01, c23), hi16x256(c01, c23), lo16x256(c45, c67), hi16x256(c45, c67)
		storeRows256(lo32x256(a0, a2), p, stride)
		storeRows256(hi32x256(a0, a2), unsafe.Add(p, 2*stride), stride)
		storeRows256(lo32x256(a1, a3), unsafe.Add(p, 4*stride), stride)
		storeRows256(hi32x256(a1, a3), unsafe.Add(p, 6*stride), stride)
		p = unsafe.Add(p, 16)
	}
}

// idctLowAVX2 needs half the first pass: in each lane only four columns of four rows.
func idctLowAVX2(q, quant *quad, dst []byte, stride int) {
	if large256(row256(q, 0, 0).Mul(row256(quant, 0, 0))) || large256(row256(q, 0, 2).Mul(row256(quant, 0, 2))) {
		idctGeneric(q, quant, dst, stride)
		return
	}
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for half := 0; half < 4; half += 2 {
		r0 := row256(q, 0, half).Mul(row256(quant, 0, half))
		r1 := row256(q, 1, half).Mul(row256(quant, 1, half))
		r2 := row256(q, 2, half).Mul(row256(quant, 2, half))
		r3 := row256(q, 3, half).Mul(row256(quant, 3, half))
		clear256(q, half, 4)
		round := archsimd.BroadcastInt32x8(round1)
		e0, e1, e2, e3 := evenLow256(lo16x256(r0, r2), round)
		o0, o1, o2, o3 := oddLow256(lo16x256(r1, r3))
		// Rows 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a vector; transposing gives four columns of eight rows.
		r0, r1 = pack256(e0.Add(o3), e3.Sub(o0)), pack256(e1.Add(o2), e2.Sub(o1))
		r2, r3 = pack256(e2.Add(o1), e1.Sub(o2)), pack256(e3.Add(o0), e0.Sub(o3))
		a0, a1, a2, a3 := lo16x256(r0, r1), hi16x256(r0, r1), lo16x256(r2, r3), hi16x256(r2, r3)
		b0, b1, b2, b3 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		r0, r1, r2, r3 = lo64x256(b0, b2), hi64x256(b0, b2), lo64x256(b1, b3), hi64x256(b1, b3)

		round = archsimd.BroadcastInt32x8(round2)
		e0, e1, e2, e3 = evenLow256(lo16x256(r0, r2), round)
		o0, o1, o2, o3 = oddLow256(lo16x256(r1, r3))
		f0, f1, f2, f3 := evenLow256(hi16x256(r0, r2), round)
		p0, p1, p2, p3 := oddLow256(hi16x256(r1, r3))
		s0, s7 := samplePack256(e0.Add(o3), f0.Add(p3)), samplePack256(e0.Sub(o3), f0.Sub(p3))
		s1, s6 := samplePack256(e1.Add(o2), f1.Add(p2)), samplePack256(e1.Sub(o2), f1.Sub(p2))
		s2, s5 := samplePack256(e2.Add(o1), f2.Add(p1)), samplePack256(e2.Sub(o1), f2.Sub(p1))
		s3, s4 := samplePack256(e3.Add(o0), f3.Add(p0)), samplePack256(e3.Sub(o0), f3.Sub(p0))
		c01, c23, c45, c67 := pairBytes256(s0, s1), pairBytes256(s2, s3), pairBytes256(s4, s5), pairBytes256(s6, s7)
		a0, a1, a2, a3 = lo16x256(c01, c23), hi16x256(c01, c23), lo16x256(c45, c67), hi16x256(c45, c67)
		storeRows256(lo32x256(a0, a2), p, stride)
		storeRows256(hi32x256(a0, a2), unsafe.Add(p, 2*stride), stride)
		storeRows256(lo32x256(a1, a3), unsafe.Add(p, 4*stride), stride)
		storeRows256(hi32x256(a1, a3), unsafe.Add(p, 6*stride), stride)
		p = unsafe.Add(p, 16)
	}
}

// evenLow256 and oddLow256 return the terms of interleaved inputs (0, 2) and (1, 3), the others being zero.
func evenLow256(a words256, round ints256) (e0, e1, e2, e3 ints256) {
	return a.DotProductPairs(factors256(&even02[0])).Add(round), a.DotProductPairs(factors256(&even02[1])).Add(round),
		a.DotProductPairs(factors256(&even02[2])).Add(round), a.DotProductPairs(factors256(&even02[3])).Add(round)
}

func oddLow256(c words256) (o0, o1, o2, o3 ints256) {
	return c.DotProductPairs(factors256(&odd13[0])), c.DotProductPairs(factors256(&odd13[1])),
		c.DotProductPairs(factors256(&odd13[2])), c.DotProductPairs(factors256(&odd13[3]))
}

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
