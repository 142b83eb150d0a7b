//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		idct: idctAVX2, idctLow: idctLowAVX2, idctDC: idctDCAVX2,
		upsampleH2: upsampleH2AVX2, ycbcrToRGB: ycbcrToRGBAVX2, grayToRGB: grayToRGBAVX2, listSymbols: listSymbolsGeneric,
	}
}

// idctFactorsAVX2 are the factors of the IDCT's one-dimensional pass, for pairs of inputs, like those of jidctint-avx2.asm: idct1D's
// terms multiplied out. The sums are equal for every input, because 32-bit arithmetic wraps.
type idctFactorsAVX2 struct {
	one                 [2]Pair // inputs: (input 0 + input 4, input 0 - input 4)
	even26              [2]Pair // inputs: (2, 6)
	oddSums             [2]Pair // inputs: (input 7 + input 3, input 5 + input 1)
	odd71               [2]Pair // inputs: (7, 1), for odd terms 0 and 3
	odd53               [2]Pair // inputs: (5, 3), for odd terms 1 and 2
	lowEven02, lowOdd13 [4]Pair // inputs: (0, 2) for even terms and (1, 3) for odd terms, if inputs 4 to 7 are zero
}

// factorsAVX2 is a pointer because the compiler then needs no instructions for each table's address.
var factorsAVX2 = &idctFactorsAVX2{
	one:     [2]Pair{Pairs(1<<idctBits, 0), Pairs(0, 1<<idctBits)},
	even26:  [2]Pair{Pairs(fix0541196100+fix0765366865, fix0541196100), Pairs(fix0541196100, fix0541196100-fix1847759065)},
	oddSums: [2]Pair{Pairs(fix1175875602-fix1961570560, fix1175875602), Pairs(fix1175875602, fix1175875602-fix0390180644)},
	odd71: [2]Pair{
		Pairs(fix0298631336-fix0899976223, -fix0899976223),
		Pairs(-fix0899976223, fix1501321110-fix0899976223),
	},
	odd53: [2]Pair{
		Pairs(fix2053119869-fix2562915447, -fix2562915447),
		Pairs(-fix2562915447, fix3072711026-fix2562915447),
	},
	lowEven02: [4]Pair{
		Pairs(1<<idctBits, fix0541196100+fix0765366865),
		Pairs(1<<idctBits, fix0541196100),
		Pairs(1<<idctBits, -fix0541196100),
		Pairs(1<<idctBits, -fix0541196100-fix0765366865),
	},
	lowOdd13: [4]Pair{
		Pairs(-fix0899976223+fix1175875602, -fix1961570560+fix1175875602),
		Pairs(-fix0390180644+fix1175875602, -fix2562915447+fix1175875602),
		Pairs(fix1175875602, fix3072711026-fix2562915447-fix1961570560+fix1175875602),
		Pairs(fix1501321110-fix0899976223-fix0390180644+fix1175875602, fix1175875602),
	},
}

// The one-dimensional pass. even returns the even terms of the zipped inputs (0+4, 0-4) and (2, 6), odd the odd ones of
// (7+3, 5+1), (7, 1) and (5, 3). evenLow and oddLow return those of (0, 2) and (1, 3), if inputs 4 to 7 are zero.

func evenAVX2(k *idctFactorsAVX2, a, b Zipped, round Dwords) (e0, e1, e2, e3 Dwords) {
	t0, t1 := Dot(a, &k.one[0]).Add(round), Dot(a, &k.one[1]).Add(round)
	t3, t2 := Dot(b, &k.even26[0]), Dot(b, &k.even26[1])
	return t0.Add(t3), t1.Add(t2), t1.Sub(t2), t0.Sub(t3)
}

func oddAVX2(k *idctFactorsAVX2, z, c, d Zipped) (o0, o1, o2, o3 Dwords) {
	z3, z4 := Dot(z, &k.oddSums[0]), Dot(z, &k.oddSums[1])
	return Dot(c, &k.odd71[0]).Add(z3), Dot(d, &k.odd53[0]).Add(z4), Dot(d, &k.odd53[1]).Add(z3), Dot(c, &k.odd71[1]).Add(z4)
}

func evenLowAVX2(k *idctFactorsAVX2, a Zipped, round Dwords) (e0, e1, e2, e3 Dwords) {
	return Dot(a, &k.lowEven02[0]).Add(round), Dot(a, &k.lowEven02[1]).Add(round),
		Dot(a, &k.lowEven02[2]).Add(round), Dot(a, &k.lowEven02[3]).Add(round)
}

func oddLowAVX2(k *idctFactorsAVX2, c Zipped) (o0, o1, o2, o3 Dwords) {
	return Dot(c, &k.lowOdd13[0]), Dot(c, &k.lowOdd13[1]), Dot(c, &k.lowOdd13[2]), Dot(c, &k.lowOdd13[3])
}

// rowAVX2 loads row r of Count blocks of a quad, dequantised.
func rowAVX2(q, quant unsafe.Pointer, r int) Words {
	return LoadWords(unsafe.Add(q, r*64)).Mul(LoadWords(unsafe.Add(quant, r*64)))
}

// clearAVX2 zeroes the first rows of Count blocks.
func clearAVX2(q unsafe.Pointer, rows int) {
	for r := range rows {
		StoreWords(Words{}, unsafe.Add(q, r*64))
	}
}

// largeAVX2 reports whether a shift by pass1Bits would overflow some first-row coefficient. Then it matters whether a
// block has other coefficients, and the generic transform decides.
func largeAVX2(q, quant unsafe.Pointer) bool {
	limit, beyond := BroadcastWords(1<<(15-pass1Bits)), Words{}
	for block := 0; block < 4; block += Count {
		beyond = beyond.Or(rowAVX2(unsafe.Add(q, block*16), unsafe.Add(quant, block*16), 0).Add(limit))
	}
	return !IsZero(beyond.And(BroadcastWords(-1 << (16 - pass1Bits))))
}

// idctAVX2 has a block in each 128-bit lane of the vectors. It is one long function because shorter ones would pass the
// eight rows through memory.
func idctAVX2(q, quant *quad, dst []byte, stride int) {
	in, steps := unsafe.Pointer(q), unsafe.Pointer(quant)
	if largeAVX2(in, steps) {
		Leave()
		idctGeneric(q, quant, dst, stride)
		return
	}
	_ = dst[7*stride+31]
	p, k := unsafe.Pointer(unsafe.SliceData(dst)), factorsAVX2
	for block := 0; block < 4; block += Count {
		r0 := rowAVX2(in, steps, 0)
		r1 := rowAVX2(in, steps, 1)
		r2 := rowAVX2(in, steps, 2)
		r3 := rowAVX2(in, steps, 3)
		r4 := rowAVX2(in, steps, 4)
		r5 := rowAVX2(in, steps, 5)
		r6 := rowAVX2(in, steps, 6)
		r7 := rowAVX2(in, steps, 7)
		clearAVX2(in, 8)
		round := BroadcastDwords(round1)
		m0, m1 := Zip(r0.Add(r4), r0.Sub(r4))
		n0, n1 := Zip(r2, r6)
		z0, z1 := Zip(r7.Add(r3), r5.Add(r1))
		c0, c1 := Zip(r7, r1)
		d0, d1 := Zip(r5, r3)
		e0, e1, e2, e3 := evenAVX2(k, m0, n0, round)
		o0, o1, o2, o3 := oddAVX2(k, z0, c0, d0)
		f0, f1, f2, f3 := evenAVX2(k, m1, n1, round)
		p0, p1, p2, p3 := oddAVX2(k, z1, c1, d1)
		r0, r7 = ShiftNarrow(e0.Add(o3), f0.Add(p3), shift1), ShiftNarrow(e0.Sub(o3), f0.Sub(p3), shift1)
		r1, r6 = ShiftNarrow(e1.Add(o2), f1.Add(p2), shift1), ShiftNarrow(e1.Sub(o2), f1.Sub(p2), shift1)
		r2, r5 = ShiftNarrow(e2.Add(o1), f2.Add(p1), shift1), ShiftNarrow(e2.Sub(o1), f2.Sub(p1), shift1)
		r3, r4 = ShiftNarrow(e3.Add(o0), f3.Add(p0), shift1), ShiftNarrow(e3.Sub(o0), f3.Sub(p0), shift1)

		// Transpose each lane's 8×8 words.
		a0, a1, a2, a3 := Transpose(r0, r1, r2, r3)
		b0, b1, b2, b3 := Transpose(r4, r5, r6, r7)
		r0, r1 = JoinHalves(a0, b0)
		r2, r3 = JoinHalves(a1, b1)
		r4, r5 = JoinHalves(a2, b2)
		r6, r7 = JoinHalves(a3, b3)

		// The words of a vector are now a column. Pairs of columns are joined as bytes, which halves the transposition back.
		round = BroadcastDwords(round2)
		m0, m1 = Zip(r0.Add(r4), r0.Sub(r4))
		n0, n1 = Zip(r2, r6)
		z0, z1 = Zip(r7.Add(r3), r5.Add(r1))
		c0, c1 = Zip(r7, r1)
		d0, d1 = Zip(r5, r3)
		e0, e1, e2, e3 = evenAVX2(k, m0, n0, round)
		o0, o1, o2, o3 = oddAVX2(k, z0, c0, d0)
		f0, f1, f2, f3 = evenAVX2(k, m1, n1, round)
		p0, p1, p2, p3 = oddAVX2(k, z1, c1, d1)
		s0, s7 := ShiftToByteRange(e0.Add(o3), f0.Add(p3), shift2), ShiftToByteRange(e0.Sub(o3), f0.Sub(p3), shift2)
		s1, s6 := ShiftToByteRange(e1.Add(o2), f1.Add(p2), shift2), ShiftToByteRange(e1.Sub(o2), f1.Sub(p2), shift2)
		s2, s5 := ShiftToByteRange(e2.Add(o1), f2.Add(p1), shift2), ShiftToByteRange(e2.Sub(o1), f2.Sub(p1), shift2)
		s3, s4 := ShiftToByteRange(e3.Add(o0), f3.Add(p0), shift2), ShiftToByteRange(e3.Sub(o0), f3.Sub(p0), shift2)
		c01, c23, c45, c67 := PairBytes(s0, s1), PairBytes(s2, s3), PairBytes(s4, s5), PairBytes(s6, s7)
		a0, a1, a2, a3 = Transpose(c01, c23, c45, c67)
		StoreHalves(a0, p, stride)
		StoreHalves(a1, unsafe.Add(p, 2*stride), stride)
		StoreHalves(a2, unsafe.Add(p, 4*stride), stride)
		StoreHalves(a3, unsafe.Add(p, 6*stride), stride)
		in, steps, p = unsafe.Add(in, 16*Count), unsafe.Add(steps, 16*Count), unsafe.Add(p, 8*Count)
	}
	Leave()
}

// idctLowAVX2 needs half the first pass: in each lane only four columns of four rows.
func idctLowAVX2(q, quant *quad, dst []byte, stride int) {
	in, steps := unsafe.Pointer(q), unsafe.Pointer(quant)
	if largeAVX2(in, steps) {
		Leave()
		idctGeneric(q, quant, dst, stride)
		return
	}
	_ = dst[7*stride+31]
	p, k := unsafe.Pointer(unsafe.SliceData(dst)), factorsAVX2
	for block := 0; block < 4; block += Count {
		r0 := rowAVX2(in, steps, 0)
		r1 := rowAVX2(in, steps, 1)
		r2 := rowAVX2(in, steps, 2)
		r3 := rowAVX2(in, steps, 3)
		clearAVX2(in, 4)
		round := BroadcastDwords(round1)
		m0, _ := Zip(r0, r2)
		c0, _ := Zip(r1, r3)
		e0, e1, e2, e3 := evenLowAVX2(k, m0, round)
		o0, o1, o2, o3 := oddLowAVX2(k, c0)
		// Rows 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a vector; transposing gives four columns of eight rows.
		r0, r1 = ShiftNarrow(e0.Add(o3), e3.Sub(o0), shift1), ShiftNarrow(e1.Add(o2), e2.Sub(o1), shift1)
		r2, r3 = ShiftNarrow(e2.Add(o1), e1.Sub(o2), shift1), ShiftNarrow(e3.Add(o0), e0.Sub(o3), shift1)
		a0, a1, a2, a3 := Transpose(r0, r1, r2, r3)
		r0, r1 = JoinHalves(a0, a2)
		r2, r3 = JoinHalves(a1, a3)

		round = BroadcastDwords(round2)
		m0, m1 := Zip(r0, r2)
		c0, c1 := Zip(r1, r3)
		e0, e1, e2, e3 = evenLowAVX2(k, m0, round)
		o0, o1, o2, o3 = oddLowAVX2(k, c0)
		f0, f1, f2, f3 := evenLowAVX2(k, m1, round)
		p0, p1, p2, p3 := oddLowAVX2(k, c1)
		s0, s7 := ShiftToByteRange(e0.Add(o3), f0.Add(p3), shift2), ShiftToByteRange(e0.Sub(o3), f0.Sub(p3), shift2)
		s1, s6 := ShiftToByteRange(e1.Add(o2), f1.Add(p2), shift2), ShiftToByteRange(e1.Sub(o2), f1.Sub(p2), shift2)
		s2, s5 := ShiftToByteRange(e2.Add(o1), f2.Add(p1), shift2), ShiftToByteRange(e2.Sub(o1), f2.Sub(p1), shift2)
		s3, s4 := ShiftToByteRange(e3.Add(o0), f3.Add(p0), shift2), ShiftToByteRange(e3.Sub(o0), f3.Sub(p0), shift2)
		c01, c23, c45, c67 := PairBytes(s0, s1), PairBytes(s2, s3), PairBytes(s4, s5), PairBytes(s6, s7)
		a0, a1, a2, a3 = Transpose(c01, c23, c45, c67)
		StoreHalves(a0, p, stride)
		StoreHalves(a1, unsafe.Add(p, 2*stride), stride)
		StoreHalves(a2, unsafe.Add(p, 4*stride), stride)
		StoreHalves(a3, unsafe.Add(p, 6*stride), stride)
		in, steps, p = unsafe.Add(in, 16*Count), unsafe.Add(steps, 16*Count), unsafe.Add(p, 8*Count)
	}
	Leave()
}

// idctDCAVX2 is sampleOfDC for four blocks.
func idctDCAVX2(q, quant *quad, dst []byte, stride int) {
	_ = dst[7*stride+31]
	p := unsafe.Pointer(unsafe.SliceData(dst))
	in, steps := unsafe.Pointer(q), unsafe.Pointer(quant)
	round, center := BroadcastWords(16), BroadcastWords(128)
	for block := 0; block < 4; block += Count {
		dc := SpreadFirst(rowAVX2(in, steps, 0))
		clearAVX2(in, 1)
		dc = dc.Add(dc)
		dc = ToByteRange(ShiftRight(dc.Add(dc).AddSaturated(round), 5).Add(center))
		samples := PairBytes(dc, dc)
		StoreHalves(samples, p, stride)
		StoreHalves(samples, unsafe.Add(p, 2*stride), stride)
		StoreHalves(samples, unsafe.Add(p, 4*stride), stride)
		StoreHalves(samples, unsafe.Add(p, 6*stride), stride)
		in, steps, p = unsafe.Add(in, 16*Count), unsafe.Add(steps, 16*Count), unsafe.Add(p, 8*Count)
	}
	Leave()
}
