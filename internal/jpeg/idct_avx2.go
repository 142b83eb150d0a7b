//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// The factors of the IDCT's one-dimensional pass, for pairs of inputs, as jidctint-avx2.asm has them: idct1D's terms
// multiplied out, which are the same sums, and 32-bit arithmetic that wraps makes them equal for every input.
var (
	evenSumsAVX2 = [2]Pair{ // of (input 0 + input 4, input 0 - input 4)
		Pairs(1<<idctBits, 0),
		Pairs(0, 1<<idctBits),
	}
	even26AVX2 = [2]Pair{ // of inputs (2, 6)
		Pairs(fix0541196100+fix0765366865, fix0541196100),
		Pairs(fix0541196100, fix0541196100-fix1847759065),
	}
	oddSumsAVX2 = [2]Pair{ // of (input 7 + input 3, input 5 + input 1)
		Pairs(fix1175875602-fix1961570560, fix1175875602),
		Pairs(fix1175875602, fix1175875602-fix0390180644),
	}
	odd71AVX2 = [2]Pair{ // of inputs (7, 1): for odd terms 0 and 3
		Pairs(fix0298631336-fix0899976223, -fix0899976223),
		Pairs(-fix0899976223, fix1501321110-fix0899976223),
	}
	odd53AVX2 = [2]Pair{ // of inputs (5, 3): for odd terms 1 and 2
		Pairs(fix2053119869-fix2562915447, -fix2562915447),
		Pairs(-fix2562915447, fix3072711026-fix2562915447),
	}
	// The same where inputs 4 to 7 are zero: even terms of inputs (0, 2), odd terms of inputs (1, 3).
	even02AVX2 = [4]Pair{
		Pairs(1<<idctBits, fix0541196100+fix0765366865),
		Pairs(1<<idctBits, fix0541196100),
		Pairs(1<<idctBits, -fix0541196100),
		Pairs(1<<idctBits, -fix0541196100-fix0765366865),
	}
	odd13AVX2 = [4]Pair{
		Pairs(-fix0899976223+fix1175875602, -fix1961570560+fix1175875602),
		Pairs(-fix0390180644+fix1175875602, -fix2562915447+fix1175875602),
		Pairs(fix1175875602, fix3072711026-fix2562915447-fix1961570560+fix1175875602),
		Pairs(fix1501321110-fix0899976223-fix0390180644+fix1175875602, fix1175875602),
	}
)

// The one-dimensional pass for the lower four words of each lane (Lo) and the upper four (Hi). even returns the even terms of the
// zipped inputs (0+4, 0-4) and (2, 6), odd the odd ones of (7+3, 5+1), (7, 1) and (5, 3); evenLow and oddLow those of (0, 2) and
// (1, 3), where inputs 4 to 7 are zero.

func evenLoAVX2(a0, a1, b0, b1 Words, round Dwords) (e0, e1, e2, e3 Dwords) {
	t0, t1 := DotLo(a0, a1, &evenSumsAVX2[0]).Add(round), DotLo(a0, a1, &evenSumsAVX2[1]).Add(round)
	t3, t2 := DotLo(b0, b1, &even26AVX2[0]), DotLo(b0, b1, &even26AVX2[1])
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

func oddLoAVX2(z0, z1, c0, c1, d0, d1 Words) (o0, o1, o2, o3 Dwords) {
	z3, z4 := DotLo(z0, z1, &oddSumsAVX2[0]), DotLo(z0, z1, &oddSumsAVX2[1])
	return DotLo(c0, c1, &odd71AVX2[0]).Add(z3), DotLo(d0, d1, &odd53AVX2[0]).Add(z4),
		DotLo(d0, d1, &odd53AVX2[1]).Add(z3), DotLo(c0, c1, &odd71AVX2[1]).Add(z4)
}

func evenLowLoAVX2(a0, a1 Words, round Dwords) (e0, e1, e2, e3 Dwords) {
	return DotLo(a0, a1, &even02AVX2[0]).Add(round), DotLo(a0, a1, &even02AVX2[1]).Add(round),
		DotLo(a0, a1, &even02AVX2[2]).Add(round), DotLo(a0, a1, &even02AVX2[3]).Add(round)
}

func oddLowLoAVX2(c0, c1 Words) (o0, o1, o2, o3 Dwords) {
	return DotLo(c0, c1, &odd13AVX2[0]), DotLo(c0, c1, &odd13AVX2[1]), DotLo(c0, c1, &odd13AVX2[2]), DotLo(c0, c1, &odd13AVX2[3])
}

func evenHiAVX2(a0, a1, b0, b1 Words, round Dwords) (e0, e1, e2, e3 Dwords) {
	t0, t1 := DotHi(a0, a1, &evenSumsAVX2[0]).Add(round), DotHi(a0, a1, &evenSumsAVX2[1]).Add(round)
	t3, t2 := DotHi(b0, b1, &even26AVX2[0]), DotHi(b0, b1, &even26AVX2[1])
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

func oddHiAVX2(z0, z1, c0, c1, d0, d1 Words) (o0, o1, o2, o3 Dwords) {
	z3, z4 := DotHi(z0, z1, &oddSumsAVX2[0]), DotHi(z0, z1, &oddSumsAVX2[1])
	return DotHi(c0, c1, &odd71AVX2[0]).Add(z3), DotHi(d0, d1, &odd53AVX2[0]).Add(z4),
		DotHi(d0, d1, &odd53AVX2[1]).Add(z3), DotHi(c0, c1, &odd71AVX2[1]).Add(z4)
}

func evenLowHiAVX2(a0, a1 Words, round Dwords) (e0, e1, e2, e3 Dwords) {
	return DotHi(a0, a1, &even02AVX2[0]).Add(round), DotHi(a0, a1, &even02AVX2[1]).Add(round),
		DotHi(a0, a1, &even02AVX2[2]).Add(round), DotHi(a0, a1, &even02AVX2[3]).Add(round)
}

func oddLowHiAVX2(c0, c1 Words) (o0, o1, o2, o3 Dwords) {
	return DotHi(c0, c1, &odd13AVX2[0]), DotHi(c0, c1, &odd13AVX2[1]), DotHi(c0, c1, &odd13AVX2[2]), DotHi(c0, c1, &odd13AVX2[3])
}

// packAVX2 finishes the first pass: two halves are shifted and saturated to 16 bits.
func packAVX2(lo, hi Dwords) Words {
	return NarrowSigned(lo.ShiftAllRight(shift1), hi.ShiftAllRight(shift1))
}

// samplePackAVX2 finishes the second pass, whose rounding has moved samples to 0..255: two halves are shifted and clamped.
func samplePackAVX2(lo, hi Dwords) Words {
	return NarrowToByteRange(lo.ShiftAllRight(shift2), hi.ShiftAllRight(shift2))
}

// largeAVX2 reports whether a shift by pass1Bits would overflow some first-row coefficient: then it matters whether a block
// has others, and the generic transform is left to tell.
func largeAVX2(r0 Words) bool {
	return !IsZero(r0.ShiftAllLeft(pass1Bits).ShiftAllRight(pass1Bits).Xor(r0))
}

// rowAVX2 loads row r of Count blocks of a quad from a block on.
func rowAVX2(q *quad, r, block int) Words { return LoadWords(unsafe.Pointer(&q[r*32+block*8])) }

// clearAVX2 zeroes the first rows of Count blocks.
func clearAVX2(q *quad, block, rows int) {
	for r := range rows {
		StoreWords(Words{}, unsafe.Pointer(&q[r*32+block*8]))
	}
}

// idctAVX2 has a block in each 128-bit lane of the vectors. It is one long function because the eight rows would
// travel through memory between shorter ones.
func idctAVX2(q, quant *quad, dst []byte, stride int) {
	for block := 0; block < 4; block += Count {
		if largeAVX2(rowAVX2(q, 0, block).Mul(rowAVX2(quant, 0, block))) {
			Leave()
			idctGeneric(q, quant, dst, stride)
			return
		}
	}
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for block := 0; block < 4; block += Count {
		r0 := rowAVX2(q, 0, block).Mul(rowAVX2(quant, 0, block))
		r1 := rowAVX2(q, 1, block).Mul(rowAVX2(quant, 1, block))
		r2 := rowAVX2(q, 2, block).Mul(rowAVX2(quant, 2, block))
		r3 := rowAVX2(q, 3, block).Mul(rowAVX2(quant, 3, block))
		r4 := rowAVX2(q, 4, block).Mul(rowAVX2(quant, 4, block))
		r5 := rowAVX2(q, 5, block).Mul(rowAVX2(quant, 5, block))
		r6 := rowAVX2(q, 6, block).Mul(rowAVX2(quant, 6, block))
		r7 := rowAVX2(q, 7, block).Mul(rowAVX2(quant, 7, block))
		clearAVX2(q, block, 8)
		round := BroadcastDwords(round1)
		s04, d04, s73, s51 := r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
		m0, m1 := Zip(s04, d04)
		n0, n1 := Zip(r2, r6)
		z0, z1 := Zip(s73, s51)
		c0, c1 := Zip(r7, r1)
		d0, d1 := Zip(r5, r3)
		e0, e1, e2, e3 := evenLoAVX2(m0, m1, n0, n1, round)
		o0, o1, o2, o3 := oddLoAVX2(z0, z1, c0, c1, d0, d1)
		f0, f1, f2, f3 := evenHiAVX2(m0, m1, n0, n1, round)
		p0, p1, p2, p3 := oddHiAVX2(z0, z1, c0, c1, d0, d1)
		r0, r7 = packAVX2(e0.Add(o3), f0.Add(p3)), packAVX2(e0.Sub(o3), f0.Sub(p3))
		r1, r6 = packAVX2(e1.Add(o2), f1.Add(p2)), packAVX2(e1.Sub(o2), f1.Sub(p2))
		r2, r5 = packAVX2(e2.Add(o1), f2.Add(p1)), packAVX2(e2.Sub(o1), f2.Sub(p1))
		r3, r4 = packAVX2(e3.Add(o0), f3.Add(p0)), packAVX2(e3.Sub(o0), f3.Sub(p0))

		// Transpose each lane's 8×8 words.
		a0, a1, a2, a3 := Lo16(r0, r1), Hi16(r0, r1), Lo16(r2, r3), Hi16(r2, r3)
		b0, b1, b2, b3 := Lo32(a0, a2), Hi32(a0, a2), Lo32(a1, a3), Hi32(a1, a3)
		a0, a1, a2, a3 = Lo16(r4, r5), Hi16(r4, r5), Lo16(r6, r7), Hi16(r6, r7)
		b4, b5, b6, b7 := Lo32(a0, a2), Hi32(a0, a2), Lo32(a1, a3), Hi32(a1, a3)
		r0, r1, r2, r3 = Lo64(b0, b4), Hi64(b0, b4), Lo64(b1, b5), Hi64(b1, b5)
		r4, r5, r6, r7 = Lo64(b2, b6), Hi64(b2, b6), Lo64(b3, b7), Hi64(b3, b7)

		// The words of a vector are now in a column; pairs of columns are joined as bytes, which halves the way back.
		round = BroadcastDwords(round2)
		s04, d04, s73, s51 = r0.Add(r4), r0.Sub(r4), r7.Add(r3), r5.Add(r1)
		m0, m1 = Zip(s04, d04)
		n0, n1 = Zip(r2, r6)
		z0, z1 = Zip(s73, s51)
		c0, c1 = Zip(r7, r1)
		d0, d1 = Zip(r5, r3)
		e0, e1, e2, e3 = evenLoAVX2(m0, m1, n0, n1, round)
		o0, o1, o2, o3 = oddLoAVX2(z0, z1, c0, c1, d0, d1)
		f0, f1, f2, f3 = evenHiAVX2(m0, m1, n0, n1, round)
		p0, p1, p2, p3 = oddHiAVX2(z0, z1, c0, c1, d0, d1)
		s0, s7 := samplePackAVX2(e0.Add(o3), f0.Add(p3)), samplePackAVX2(e0.Sub(o3), f0.Sub(p3))
		s1, s6 := samplePackAVX2(e1.Add(o2), f1.Add(p2)), samplePackAVX2(e1.Sub(o2), f1.Sub(p2))
		s2, s5 := samplePackAVX2(e2.Add(o1), f2.Add(p1)), samplePackAVX2(e2.Sub(o1), f2.Sub(p1))
		s3, s4 := samplePackAVX2(e3.Add(o0), f3.Add(p0)), samplePackAVX2(e3.Sub(o0), f3.Sub(p0))
		c01, c23, c45, c67 := PairBytes(s0, s1), PairBytes(s2, s3), PairBytes(s4, s5), PairBytes(s6, s7)
		a0, a1, a2, a3 = Lo16(c01, c23), Hi16(c01, c23), Lo16(c45, c67), Hi16(c45, c67)
		StoreHalves(Lo32(a0, a2), p, stride)
		StoreHalves(Hi32(a0, a2), unsafe.Add(p, 2*stride), stride)
		StoreHalves(Lo32(a1, a3), unsafe.Add(p, 4*stride), stride)
		StoreHalves(Hi32(a1, a3), unsafe.Add(p, 6*stride), stride)
		p = unsafe.Add(p, 8*Count)
	}
	Leave()
}

// idctLowAVX2 needs half the first pass: in each lane only four columns of four rows.
func idctLowAVX2(q, quant *quad, dst []byte, stride int) {
	for block := 0; block < 4; block += Count {
		if largeAVX2(rowAVX2(q, 0, block).Mul(rowAVX2(quant, 0, block))) {
			Leave()
			idctGeneric(q, quant, dst, stride)
			return
		}
	}
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for block := 0; block < 4; block += Count {
		r0 := rowAVX2(q, 0, block).Mul(rowAVX2(quant, 0, block))
		r1 := rowAVX2(q, 1, block).Mul(rowAVX2(quant, 1, block))
		r2 := rowAVX2(q, 2, block).Mul(rowAVX2(quant, 2, block))
		r3 := rowAVX2(q, 3, block).Mul(rowAVX2(quant, 3, block))
		clearAVX2(q, block, 4)
		round := BroadcastDwords(round1)
		m0, m1 := Zip(r0, r2)
		c0, c1 := Zip(r1, r3)
		e0, e1, e2, e3 := evenLowLoAVX2(m0, m1, round)
		o0, o1, o2, o3 := oddLowLoAVX2(c0, c1)
		// Rows 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a vector; transposing gives four columns of eight rows.
		r0, r1 = packAVX2(e0.Add(o3), e3.Sub(o0)), packAVX2(e1.Add(o2), e2.Sub(o1))
		r2, r3 = packAVX2(e2.Add(o1), e1.Sub(o2)), packAVX2(e3.Add(o0), e0.Sub(o3))
		a0, a1, a2, a3 := Lo16(r0, r1), Hi16(r0, r1), Lo16(r2, r3), Hi16(r2, r3)
		b0, b1, b2, b3 := Lo32(a0, a2), Hi32(a0, a2), Lo32(a1, a3), Hi32(a1, a3)
		r0, r1, r2, r3 = Lo64(b0, b2), Hi64(b0, b2), Lo64(b1, b3), Hi64(b1, b3)

		round = BroadcastDwords(round2)
		m0, m1 = Zip(r0, r2)
		c0, c1 = Zip(r1, r3)
		e0, e1, e2, e3 = evenLowLoAVX2(m0, m1, round)
		o0, o1, o2, o3 = oddLowLoAVX2(c0, c1)
		f0, f1, f2, f3 := evenLowHiAVX2(m0, m1, round)
		p0, p1, p2, p3 := oddLowHiAVX2(c0, c1)
		s0, s7 := samplePackAVX2(e0.Add(o3), f0.Add(p3)), samplePackAVX2(e0.Sub(o3), f0.Sub(p3))
		s1, s6 := samplePackAVX2(e1.Add(o2), f1.Add(p2)), samplePackAVX2(e1.Sub(o2), f1.Sub(p2))
		s2, s5 := samplePackAVX2(e2.Add(o1), f2.Add(p1)), samplePackAVX2(e2.Sub(o1), f2.Sub(p1))
		s3, s4 := samplePackAVX2(e3.Add(o0), f3.Add(p0)), samplePackAVX2(e3.Sub(o0), f3.Sub(p0))
		c01, c23, c45, c67 := PairBytes(s0, s1), PairBytes(s2, s3), PairBytes(s4, s5), PairBytes(s6, s7)
		a0, a1, a2, a3 = Lo16(c01, c23), Hi16(c01, c23), Lo16(c45, c67), Hi16(c45, c67)
		StoreHalves(Lo32(a0, a2), p, stride)
		StoreHalves(Hi32(a0, a2), unsafe.Add(p, 2*stride), stride)
		StoreHalves(Lo32(a1, a3), unsafe.Add(p, 4*stride), stride)
		StoreHalves(Hi32(a1, a3), unsafe.Add(p, 6*stride), stride)
		p = unsafe.Add(p, 8*Count)
	}
	Leave()
}

func idctDCAVX2(q, quant *quad, dst []byte, stride int) {
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	round, center, top := BroadcastWords(16), BroadcastWords(128), BroadcastWords(255)
	for block := 0; block < 4; block += Count {
		dc := SpreadFirst(rowAVX2(q, 0, block).Mul(rowAVX2(quant, 0, block)))
		clearAVX2(q, block, 1)
		dc = dc.ShiftAllLeft(pass1Bits).AddSaturated(round).ShiftAllRight(5).Add(center).Max(Words{}).Min(top)
		samples := PairBytes(dc, dc)
		StoreHalves(samples, p, stride)
		StoreHalves(samples, unsafe.Add(p, 2*stride), stride)
		StoreHalves(samples, unsafe.Add(p, 4*stride), stride)
		StoreHalves(samples, unsafe.Add(p, 6*stride), stride)
		p = unsafe.Add(p, 8*Count)
	}
	Leave()
}
