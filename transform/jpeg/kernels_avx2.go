//go:build goexperiment.simd && amd64

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
	return archsimd.LoadInt16x16((*[16]int16)(q[r*32+half*8:]))
}

func factors256(t *[16]int32) words256 { return archsimd.LoadInt32x8((*[8]int32)(t[:8])).AsInt16x16() }

func lo16x256(a, b words256) words256 { return a.InterleaveLoGrouped(b) }
func hi16x256(a, b words256) words256 { return a.InterleaveHiGrouped(b) }
func lo32x256(a, b words256) words256 {
	return a.AsInt32x8().InterleaveLoGrouped(b.AsInt32x8()).AsInt16x16()
}
func hi32x256(a, b words256) words256 {
	return a.AsInt32x8().InterleaveHiGrouped(b.AsInt32x8()).AsInt16x16()
}
func lo64x256(a, b words256) words256 {
	return a.AsInt64x4().InterleaveLoGrouped(b.AsInt64x4()).AsInt16x16()
}
func hi64x256(a, b words256) words256 {
	return a.AsInt64x4().InterleaveHiGrouped(b.AsInt64x4()).AsInt16x16()
}

// even256 returns the even terms of interleaved inputs (0, 4) and (2, 6).
func even256(a, b words256, round ints256) (e0, e1, e2, e3 ints256) {
	t0 := a.DotProductPairs(factors256(&even04[0])).Add(round)
	t1 := a.DotProductPairs(factors256(&even04[1])).Add(round)
	t3 := b.DotProductPairs(factors256(&even26[0]))
	t2 := b.DotProductPairs(factors256(&even26[1]))
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

// odd256 returns an odd term of interleaved inputs (7, 1) and (5, 3).
func odd256(c, d words256, t *[2][16]int32) ints256 {
	return c.DotProductPairs(factors256(&t[0])).Add(d.DotProductPairs(factors256(&t[1])))
}

// pack256 shifts two halves and saturates them to 16 bits.
func pack256(lo, hi ints256, shift uint64) words256 {
	return lo.ShiftAllRight(shift).SaturateToInt16ConcatGrouped(hi.ShiftAllRight(shift))
}

// idctAVX2 has a block in each of the two 128-bit lanes, twice.
func idctAVX2(q, quant *quad, dst []byte, stride int) {
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
		round, shift := archsimd.BroadcastInt32x8(round1), uint64(shift1)
		for range 2 {
			c, d := lo16x256(r7, r1), lo16x256(r5, r3)
			e0, e1, e2, e3 := even256(lo16x256(r0, r4), lo16x256(r2, r6), round)
			o0, o1, o2, o3 := odd256(c, d, &odd[0]), odd256(c, d, &odd[1]), odd256(c, d, &odd[2]), odd256(c, d, &odd[3])
			c, d = hi16x256(r7, r1), hi16x256(r5, r3)
			f0, f1, f2, f3 := even256(hi16x256(r0, r4), hi16x256(r2, r6), round)
			p0, p1, p2, p3 := odd256(c, d, &odd[0]), odd256(c, d, &odd[1]), odd256(c, d, &odd[2]), odd256(c, d, &odd[3])
			r0, r7 = pack256(e0.Add(o3), f0.Add(p3), shift), pack256(e0.Sub(o3), f0.Sub(p3), shift)
			r1, r6 = pack256(e1.Add(o2), f1.Add(p2), shift), pack256(e1.Sub(o2), f1.Sub(p2), shift)
			r2, r5 = pack256(e2.Add(o1), f2.Add(p1), shift), pack256(e2.Sub(o1), f2.Sub(p1), shift)
			r3, r4 = pack256(e3.Add(o0), f3.Add(p0), shift), pack256(e3.Sub(o0), f3.Sub(p0), shift)

			a0, a1, a2, a3 := lo16x256(r0, r1), hi16x256(r0, r1), lo16x256(r2, r3), hi16x256(r2, r3)
			b0, b1, b2, b3 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
			a0, a1, a2, a3 = lo16x256(r4, r5), hi16x256(r4, r5), lo16x256(r6, r7), hi16x256(r6, r7)
			b4, b5, b6, b7 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
			r0, r1, r2, r3 = lo64x256(b0, b4), hi64x256(b0, b4), lo64x256(b1, b5), hi64x256(b1, b5)
			r4, r5, r6, r7 = lo64x256(b2, b6), hi64x256(b2, b6), lo64x256(b3, b7), hi64x256(b3, b7)
			round, shift = archsimd.BroadcastInt32x8(round2), shift2
		}
		storeRows256(r0, r1, unsafe.Add(p, half*8), stride)
		storeRows256(r2, r3, unsafe.Add(p, 2*stride+half*8), stride)
		storeRows256(r4, r5, unsafe.Add(p, 4*stride+half*8), stride)
		storeRows256(r6, r7, unsafe.Add(p, 6*stride+half*8), stride)
	}
	*q = quad{}
}

var (
	// splitBytes gathers the even bytes of each 128 bits before the odd ones.
	splitBytes = func() (t [32]int8) {
		for i := range t {
			t[i] = int8(i&7*2 + i>>3&1)
		}
		return t
	}()
	// splitLanes gathers the lower halves of both lanes before the upper ones.
	splitLanes = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}
)

// storeRows256 clamps two rows of 16 samples, moves them from -128..127 to 0..255, and stores them.
func storeRows256(r0, r1 words256, p unsafe.Pointer, stride int) {
	low, high := archsimd.BroadcastInt16x16(-128), archsimd.BroadcastInt16x16(127)
	r0, r1 = r0.Min(high).Max(low), r1.Min(high).Max(low)
	// The words hold -128..127: their low bytes, with the top bit turned, are the samples.
	v := r0.And(archsimd.BroadcastInt16x16(255)).Or(r1.ShiftAllLeft(8)).AsUint8x32().Xor(archsimd.BroadcastUint8x32(128))
	v = v.PermuteOrZeroGrouped(archsimd.LoadInt8x32(&splitBytes)).AsUint32x8().Permute(archsimd.LoadUint32x8(&splitLanes)).AsUint8x32()
	v.GetLo().Store((*[16]uint8)(p))
	v.GetHi().Store((*[16]uint8)(unsafe.Add(p, stride)))
}

// idctLowAVX2 needs half the first pass: in each lane only four columns of four rows.
func idctLowAVX2(q, quant *quad, dst []byte, stride int) {
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for half := 0; half < 4; half += 2 {
		r0 := row256(q, 0, half).Mul(row256(quant, 0, half))
		r1 := row256(q, 1, half).Mul(row256(quant, 1, half))
		r2 := row256(q, 2, half).Mul(row256(quant, 2, half))
		r3 := row256(q, 3, half).Mul(row256(quant, 3, half))
		round := archsimd.BroadcastInt32x8(round1)
		a, c := lo16x256(r0, r2), lo16x256(r1, r3)
		e0, e1 := a.DotProductPairs(factors256(&even02[0])).Add(round), a.DotProductPairs(factors256(&even02[1])).Add(round)
		e2, e3 := a.DotProductPairs(factors256(&even02[2])).Add(round), a.DotProductPairs(factors256(&even02[3])).Add(round)
		o0, o1 := c.DotProductPairs(factors256(&odd13[0])), c.DotProductPairs(factors256(&odd13[1]))
		o2, o3 := c.DotProductPairs(factors256(&odd13[2])), c.DotProductPairs(factors256(&odd13[3]))
		r0 = pack256(e0.Add(o3), e3.Sub(o0), shift1)
		r1 = pack256(e1.Add(o2), e2.Sub(o1), shift1)
		r2 = pack256(e2.Add(o1), e1.Sub(o2), shift1)
		r3 = pack256(e3.Add(o0), e0.Sub(o3), shift1)
		a0, a1, a2, a3 := lo16x256(r0, r1), hi16x256(r0, r1), lo16x256(r2, r3), hi16x256(r2, r3)
		b0, b1, b2, b3 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		r0, r1, r2, r3 = lo64x256(b0, b2), hi64x256(b0, b2), lo64x256(b1, b3), hi64x256(b1, b3)

		round = archsimd.BroadcastInt32x8(round2)
		a, c = lo16x256(r0, r2), lo16x256(r1, r3)
		e0, e1 = a.DotProductPairs(factors256(&even02[0])).Add(round), a.DotProductPairs(factors256(&even02[1])).Add(round)
		e2, e3 = a.DotProductPairs(factors256(&even02[2])).Add(round), a.DotProductPairs(factors256(&even02[3])).Add(round)
		o0, o1 = c.DotProductPairs(factors256(&odd13[0])), c.DotProductPairs(factors256(&odd13[1]))
		o2, o3 = c.DotProductPairs(factors256(&odd13[2])), c.DotProductPairs(factors256(&odd13[3]))
		a, c = hi16x256(r0, r2), hi16x256(r1, r3)
		f0, f1 := a.DotProductPairs(factors256(&even02[0])).Add(round), a.DotProductPairs(factors256(&even02[1])).Add(round)
		f2, f3 := a.DotProductPairs(factors256(&even02[2])).Add(round), a.DotProductPairs(factors256(&even02[3])).Add(round)
		p0, p1 := c.DotProductPairs(factors256(&odd13[0])), c.DotProductPairs(factors256(&odd13[1]))
		p2, p3 := c.DotProductPairs(factors256(&odd13[2])), c.DotProductPairs(factors256(&odd13[3]))
		r0, r7 := pack256(e0.Add(o3), f0.Add(p3), shift2), pack256(e0.Sub(o3), f0.Sub(p3), shift2)
		r1, r6 := pack256(e1.Add(o2), f1.Add(p2), shift2), pack256(e1.Sub(o2), f1.Sub(p2), shift2)
		r2, r5 := pack256(e2.Add(o1), f2.Add(p1), shift2), pack256(e2.Sub(o1), f2.Sub(p1), shift2)
		r3, r4 := pack256(e3.Add(o0), f3.Add(p0), shift2), pack256(e3.Sub(o0), f3.Sub(p0), shift2)

		a0, a1, a2, a3 = lo16x256(r0, r1), hi16x256(r0, r1), lo16x256(r2, r3), hi16x256(r2, r3)
		b0, b1, b2, b3 = lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		a0, a1, a2, a3 = lo16x256(r4, r5), hi16x256(r4, r5), lo16x256(r6, r7), hi16x256(r6, r7)
		b4, b5, b6, b7 := lo32x256(a0, a2), hi32x256(a0, a2), lo32x256(a1, a3), hi32x256(a1, a3)
		storeRows256(lo64x256(b0, b4), hi64x256(b0, b4), unsafe.Add(p, half*8), stride)
		storeRows256(lo64x256(b1, b5), hi64x256(b1, b5), unsafe.Add(p, 2*stride+half*8), stride)
		storeRows256(lo64x256(b2, b6), hi64x256(b2, b6), unsafe.Add(p, 4*stride+half*8), stride)
		storeRows256(lo64x256(b3, b7), hi64x256(b3, b7), unsafe.Add(p, 6*stride+half*8), stride)
	}
	*(*[4 * 32]int16)(q[:]) = [4 * 32]int16{}
}

func idctDCAVX2(q, quant *quad, dst []byte, stride int) {
	var samples [4]uint64
	for block := range samples {
		dc := int32(q[block*8] * quant[block*8])
		samples[block] = uint64(max(-128, min(127, (dc+4)>>3))+128) * 0x0101010101010101
	}
	v := archsimd.LoadUint64x4(&samples).AsUint8x32()
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for range 8 {
		v.Store((*[32]uint8)(p))
		p = unsafe.Add(p, stride)
	}
	*(*[32]int16)(q[:]) = [32]int16{}
}

func samples256(p unsafe.Pointer, i int) archsimd.Uint16x16 {
	return archsimd.LoadUint8x16((*[16]uint8)(unsafe.Add(p, i))).ExtendToUint16()
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
		left.Or(right.ShiftAllLeft(8)).AsUint8x32().Store((*[32]uint8)(unsafe.Add(out, 2*i)))
	}
}

func upsampleH1V2AVX2(dst, near, far []byte, count, bias int) {
	last := (count - 1) &^ 31
	_, _, _ = dst[last+31], near[last+31], far[last+31]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, round := archsimd.BroadcastUint16x16(3), archsimd.BroadcastUint16x16(uint16(bias))
	split, lanes := archsimd.LoadInt8x32(&splitBytes), archsimd.LoadUint32x8(&splitLanes)
	for i := 0; i < count; i += 32 {
		v := samples256(a, i).Mul(three).Add(samples256(b, i)).Add(round).ShiftAllRight(2)
		w := samples256(a, i+16).Mul(three).Add(samples256(b, i+16)).Add(round).ShiftAllRight(2)
		v8 := v.Or(w.ShiftAllLeft(8)).AsUint8x32().PermuteOrZeroGrouped(split)
		v8.AsUint32x8().Permute(lanes).AsUint8x32().Store((*[32]uint8)(unsafe.Add(out, i)))
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
		left.Or(right.ShiftAllLeft(8)).AsUint8x32().Store((*[32]uint8)(unsafe.Add(out, 2*i)))
	}
}

// rgbOrder256 are VPSHUFB indices, the same in both lanes, from words of R | G<<8 (first two) and of B (last two) for
// eight pixels to the first 16 and the last 8 of 24 bytes RGB; -128 gives zero.
var rgbOrder256 = func() (t [4][32]int8) {
	for i := range 32 {
		for half := range 2 {
			k := i&15 + half*16
			rg, b := int8(-128), int8(-128)
			switch {
			case k < 24 && k%3 < 2:
				rg = int8(k/3*2 + k%3)
			case k < 24:
				b = int8(k / 3 * 2)
			}
			t[half][i], t[2+half][i] = rg, b
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
		yy := samples256(py, i).AsInt16x16()
		b := samples256(pb, i).AsInt16x16().Sub(center)
		r := samples256(pr, i).AsInt16x16().Sub(center)
		b2, r2 := b.Add(b), r.Add(r)
		red := yy.Add(r).Add(r2.MulHigh(kr).Add(one).ShiftAllRight(1))
		blue := yy.Add(b2).Add(b2.MulHigh(kb).Add(one).ShiftAllRight(1))
		lo := b.InterleaveLoGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		hi := b.InterleaveHiGrouped(r).DotProductPairs(kg).Add(half).ShiftAllRight(16)
		green := yy.Sub(r).Add(lo.SaturateToInt16ConcatGrouped(hi))
		rg := red.Max(zero).Min(top).Or(green.Max(zero).Min(top).ShiftAllLeft(8)).AsUint8x32()
		bb := blue.Max(zero).Min(top).AsUint8x32()
		head := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32(&rgbOrder256[0])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32(&rgbOrder256[2])))
		tail := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32(&rgbOrder256[1])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32(&rgbOrder256[3]))).AsUint64x4()
		p := unsafe.Add(out, 3*i)
		head.GetLo().Store((*[16]uint8)(p))
		*(*uint64)(unsafe.Add(p, 16)) = tail.GetLo().GetElem(0)
		head.GetHi().Store((*[16]uint8)(unsafe.Add(p, 24)))
		*(*uint64)(unsafe.Add(p, 40)) = tail.GetHi().GetElem(0)
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
	order1 := archsimd.LoadInt8x32((*[32]int8)(grayOrder256[:]))
	order2 := archsimd.LoadInt8x32((*[32]int8)(grayOrder256[32:]))
	for i := 0; ; i += 16 {
		i = min(i, n-16)
		v := archsimd.LoadUint8x16((*[16]uint8)(unsafe.Add(in, i)))
		both := archsimd.Uint8x32{}.SetLo(v).SetHi(v)
		both.PermuteOrZeroGrouped(order1).Store((*[32]uint8)(unsafe.Add(out, 3*i)))
		both.PermuteOrZeroGrouped(order2).GetLo().Store((*[16]uint8)(unsafe.Add(out, 3*i+32)))
		if i == n-16 {
			return
		}
	}
}
