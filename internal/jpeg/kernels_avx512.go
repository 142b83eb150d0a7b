//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"simd/archsimd"
	"unsafe"
)

type (
	words512 = archsimd.Int16x32
	ints512  = archsimd.Int32x16
)

func row512(q *quad, r int) words512 { return archsimd.LoadInt16x32Array((*[32]int16)(q[r*32:])) }

func factors512(t *[16]int32) words512 {
	return archsimd.LoadInt32x16Array(t).ToBits().ReshapeToUint16s().BitsToInt16()
}

func lo16x512(a, b words512) words512 { return a.InterleaveLoGrouped(b) }
func hi16x512(a, b words512) words512 { return a.InterleaveHiGrouped(b) }
func lo32x512(a, b words512) words512 {
	return a.AsInt32x16().InterleaveLoGrouped(b.AsInt32x16()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func hi32x512(a, b words512) words512 {
	return a.AsInt32x16().InterleaveHiGrouped(b.AsInt32x16()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func lo64x512(a, b words512) words512 {
	return a.AsInt64x8().InterleaveLoGrouped(b.AsInt64x8()).ToBits().ReshapeToUint16s().BitsToInt16()
}
func hi64x512(a, b words512) words512 {
	return a.AsInt64x8().InterleaveHiGrouped(b.AsInt64x8()).ToBits().ReshapeToUint16s().BitsToInt16()
}

// even512 returns the even terms of interleaved inputs (0+4, 0-4) and (2, 6).
func even512(a, b words512, round ints512) (e0, e1, e2, e3 ints512) {
	t0 := a.DotProductPairs(factors512(&evenSums[0])).Add(round)
	t1 := a.DotProductPairs(factors512(&evenSums[1])).Add(round)
	t3 := b.DotProductPairs(factors512(&even26[0]))
	t2 := b.DotProductPairs(factors512(&even26[1]))
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

// odd512 returns the odd terms of interleaved inputs (7+3, 5+1), (7, 1) and (5, 3).
func odd512(z, c, d words512) (o0, o1, o2, o3 ints512) {
	z3, z4 := z.DotProductPairs(factors512(&oddSums[0])), z.DotProductPairs(factors512(&oddSums[1]))
	return c.DotProductPairs(factors512(&odd71[0])).Add(z3), d.DotProductPairs(factors512(&odd53[0])).Add(z4),
		d.DotProductPairs(factors512(&odd53[1])).Add(z3), c.DotProductPairs(factors512(&odd71[1])).Add(z4)
}

// pack512 finishes the first pass: two halves are shifted and saturated to 16 bits.
func pack512(lo, hi ints512) words512 {
	return lo.ShiftAllRight(shift1).SaturateToInt16ConcatGrouped(hi.ShiftAllRight(shift1))
}

// samplePack512 finishes the second pass, whose rounding has moved samples to 0..255: two halves are shifted, and those
// below zero are made zero.
func samplePack512(lo, hi ints512) words512 {
	return lo.ShiftAllRight(shift2).SaturateToUint16ConcatGrouped(hi.ShiftAllRight(shift2)).BitsToInt16()
}

// store512 stores 32 samples, those above 255 as 255.
func store512(r words512, p unsafe.Pointer) {
	r.AsUint16x32().SaturateToUint8().StoreArray((*[32]uint8)(p))
}

// large512 reports whether a shift by pass1Bits would overflow some first-row coefficient: then it matters whether a block
// has others, and the generic transform is left to tell.
func large512(r0 words512) bool {
	return r0.ShiftAllLeft(pass1Bits).ShiftAllRight(pass1Bits).NotEqual(r0).ToBits() != 0
}

// clear512 zeroes the first rows of a quad.
func clear512(q *quad, rows int) {
	zero := archsimd.BroadcastInt16x32(0)
	for r := 0; r < rows; r++ {
		zero.StoreArray((*[32]int16)(q[r*32:]))
	}
}

// idctAVX512 has a block in each of the four 128-bit lanes throughout. It is one long function because the eight rows
// would travel through memory between shorter ones.
func idctAVX512(q, quant *quad, dst []byte, stride int) {
	r0 := row512(q, 0).Mul(row512(quant, 0))
	r1 := row512(q, 1).Mul(row512(quant, 1))
	r2 := row512(q, 2).Mul(row512(quant, 2))
	r3 := row512(q, 3).Mul(row512(quant, 3))
	r4 := row512(q, 4).Mul(row512(quant, 4))
	r5 := row512(q, 5).Mul(row512(quant, 5))
	r6 := row512(q, 6).Mul(row512(quant, 6))
	r7 := row512(q, 7).Mul(row512(quant, 7))
	if large512(r0) {
		idctGeneric(q, quant, dst, stride)
		return
	}
	clear512(q, 8)
	round := archsimd.BroadcastInt32x16(round1)
	s04, d04, s73, s51 := r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
	e0, e1, e2, e3 := even512(lo16x512(s04, d04), lo16x512(r2, r6), round)
	o0, o1, o2, o3 := odd512(lo16x512(s73, s51), lo16x512(r7, r1), lo16x512(r5, r3))
	f0, f1, f2, f3 := even512(hi16x512(s04, d04), hi16x512(r2, r6), round)
	p0, p1, p2, p3 := odd512(hi16x512(s73, s51), hi16x512(r7, r1), hi16x512(r5, r3))
	r0, r7 = pack512(e0.Add(o3), f0.Add(p3)), pack512(e0.Sub(o3), f0.Sub(p3))
	r1, r6 = pack512(e1.Add(o2), f1.Add(p2)), pack512(e1.Sub(o2), f1.Sub(p2))
	r2, r5 = pack512(e2.Add(o1), f2.Add(p1)), pack512(e2.Sub(o1), f2.Sub(p1))
	r3, r4 = pack512(e3.Add(o0), f3.Add(p0)), pack512(e3.Sub(o0), f3.Sub(p0))

	// Transpose each lane's 8×8 words.
	a0, a1, a2, a3 := lo16x512(r0, r1), hi16x512(r0, r1), lo16x512(r2, r3), hi16x512(r2, r3)
	b0, b1, b2, b3 := lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	a0, a1, a2, a3 = lo16x512(r4, r5), hi16x512(r4, r5), lo16x512(r6, r7), hi16x512(r6, r7)
	b4, b5, b6, b7 := lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	r0, r1, r2, r3 = lo64x512(b0, b4), hi64x512(b0, b4), lo64x512(b1, b5), hi64x512(b1, b5)
	r4, r5, r6, r7 = lo64x512(b2, b6), hi64x512(b2, b6), lo64x512(b3, b7), hi64x512(b3, b7)

	round = archsimd.BroadcastInt32x16(round2)
	s04, d04, s73, s51 = r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
	e0, e1, e2, e3 = even512(lo16x512(s04, d04), lo16x512(r2, r6), round)
	o0, o1, o2, o3 = odd512(lo16x512(s73, s51), lo16x512(r7, r1), lo16x512(r5, r3))
	f0, f1, f2, f3 = even512(hi16x512(s04, d04), hi16x512(r2, r6), round)
	p0, p1, p2, p3 = odd512(hi16x512(s73, s51), hi16x512(r7, r1), hi16x512(r5, r3))
	s0, s7 := samplePack512(e0.Add(o3), f0.Add(p3)), samplePack512(e0.Sub(o3), f0.Sub(p3))
	s1, s6 := samplePack512(e1.Add(o2), f1.Add(p2)), samplePack512(e1.Sub(o2), f1.Sub(p2))
	s2, s5 := samplePack512(e2.Add(o1), f2.Add(p1)), samplePack512(e2.Sub(o1), f2.Sub(p1))
	s3, s4 := samplePack512(e3.Add(o0), f3.Add(p0)), samplePack512(e3.Sub(o0), f3.Sub(p0))
	a0, a1, a2, a3 = lo16x512(s0, s1), hi16x512(s0, s1), lo16x512(s2, s3), hi16x512(s2, s3)
	b0, b1, b2, b3 = lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	a0, a1, a2, a3 = lo16x512(s4, s5), hi16x512(s4, s5), lo16x512(s6, s7), hi16x512(s6, s7)
	b4, b5, b6, b7 = lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	store512(lo64x512(b0, b4), p)
	store512(hi64x512(b0, b4), unsafe.Add(p, stride))
	store512(lo64x512(b1, b5), unsafe.Add(p, 2*stride))
	store512(hi64x512(b1, b5), unsafe.Add(p, 3*stride))
	store512(lo64x512(b2, b6), unsafe.Add(p, 4*stride))
	store512(hi64x512(b2, b6), unsafe.Add(p, 5*stride))
	store512(lo64x512(b3, b7), unsafe.Add(p, 6*stride))
	store512(hi64x512(b3, b7), unsafe.Add(p, 7*stride))
}

// idctLowAVX512 needs half the first pass: in each lane only four columns of four rows.
func idctLowAVX512(q, quant *quad, dst []byte, stride int) {
	r0 := row512(q, 0).Mul(row512(quant, 0))
	r1 := row512(q, 1).Mul(row512(quant, 1))
	r2 := row512(q, 2).Mul(row512(quant, 2))
	r3 := row512(q, 3).Mul(row512(quant, 3))
	if large512(r0) {
		idctGeneric(q, quant, dst, stride)
		return
	}
	clear512(q, 4)
	round := archsimd.BroadcastInt32x16(round1)
	e0, e1, e2, e3 := evenLow512(lo16x512(r0, r2), round)
	o0, o1, o2, o3 := oddLow512(lo16x512(r1, r3))
	// Rows 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a vector; transposing gives four columns of eight rows.
	r0, r1 = pack512(e0.Add(o3), e3.Sub(o0)), pack512(e1.Add(o2), e2.Sub(o1))
	r2, r3 = pack512(e2.Add(o1), e1.Sub(o2)), pack512(e3.Add(o0), e0.Sub(o3))
	a0, a1, a2, a3 := lo16x512(r0, r1), hi16x512(r0, r1), lo16x512(r2, r3), hi16x512(r2, r3)
	b0, b1, b2, b3 := lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	r0, r1, r2, r3 = lo64x512(b0, b2), hi64x512(b0, b2), lo64x512(b1, b3), hi64x512(b1, b3)

	round = archsimd.BroadcastInt32x16(round2)
	e0, e1, e2, e3 = evenLow512(lo16x512(r0, r2), round)
	o0, o1, o2, o3 = oddLow512(lo16x512(r1, r3))
	f0, f1, f2, f3 := evenLow512(hi16x512(r0, r2), round)
	p0, p1, p2, p3 := oddLow512(hi16x512(r1, r3))
	s0, s7 := samplePack512(e0.Add(o3), f0.Add(p3)), samplePack512(e0.Sub(o3), f0.Sub(p3))
	s1, s6 := samplePack512(e1.Add(o2), f1.Add(p2)), samplePack512(e1.Sub(o2), f1.Sub(p2))
	s2, s5 := samplePack512(e2.Add(o1), f2.Add(p1)), samplePack512(e2.Sub(o1), f2.Sub(p1))
	s3, s4 := samplePack512(e3.Add(o0), f3.Add(p0)), samplePack512(e3.Sub(o0), f3.Sub(p0))
	a0, a1, a2, a3 = lo16x512(s0, s1), hi16x512(s0, s1), lo16x512(s2, s3), hi16x512(s2, s3)
	b0, b1, b2, b3 = lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	a0, a1, a2, a3 = lo16x512(s4, s5), hi16x512(s4, s5), lo16x512(s6, s7), hi16x512(s6, s7)
	b4, b5, b6, b7 := lo32x512(a0, a2), hi32x512(a0, a2), lo32x512(a1, a3), hi32x512(a1, a3)
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	store512(lo64x512(b0, b4), p)
	store512(hi64x512(b0, b4), unsafe.Add(p, stride))
	store512(lo64x512(b1, b5), unsafe.Add(p, 2*stride))
	store512(hi64x512(b1, b5), unsafe.Add(p, 3*stride))
	store512(lo64x512(b2, b6), unsafe.Add(p, 4*stride))
	store512(hi64x512(b2, b6), unsafe.Add(p, 5*stride))
	store512(lo64x512(b3, b7), unsafe.Add(p, 6*stride))
	store512(hi64x512(b3, b7), unsafe.Add(p, 7*stride))
}

// evenLow512 and oddLow512 return the terms of interleaved inputs (0, 2) and (1, 3), the others being zero.
func evenLow512(a words512, round ints512) (e0, e1, e2, e3 ints512) {
	return a.DotProductPairs(factors512(&even02[0])).Add(round), a.DotProductPairs(factors512(&even02[1])).Add(round),
		a.DotProductPairs(factors512(&even02[2])).Add(round), a.DotProductPairs(factors512(&even02[3])).Add(round)
}

func oddLow512(c words512) (o0, o1, o2, o3 ints512) {
	return c.DotProductPairs(factors512(&odd13[0])), c.DotProductPairs(factors512(&odd13[1])),
		c.DotProductPairs(factors512(&odd13[2])), c.DotProductPairs(factors512(&odd13[3]))
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
		var block [96]byte
		ycbcrToRGBAVX512(block[:], y, cb, cr)
		copy(dst, block[:])
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
