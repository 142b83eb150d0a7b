//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixels

import (
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// acceleratedKernels returns the kernels for a level above Generic.
func acceleratedKernels(level kernel.Level) kernels {
	if level >= kernel.AVX512 {
		return kernels{
			measure:    measureAVX512,
			unpack:     unpackAVX512,
			predict:    predictAVX2,
			interleave: interleaveAVX512,
			planar:     planarAVX512,
			split:      splitAVX2,
			residuals:  residualsAVX2,
			pack:       packAVX512,
			stream:     streamAVX512,
			streamCopy: streamCopy,
			leave:      leaveSIMD,
		}
	}
	return kernels{
		measure:    measureAVX2,
		unpack:     unpackAVX2,
		predict:    predictAVX2,
		interleave: interleaveAVX2,
		planar:     planarAVX2,
		split:      splitAVX2,
		residuals:  residualsAVX2,
		pack:       packAVX2,
		stream:     streamAVX2,
		streamCopy: streamCopy,
		leave:      leaveSIMD,
	}
}

func leaveSIMD(streamed bool) {
	ClearAVXUpperBits()
	if streamed {
		fence()
	}
}

func load16(p unsafe.Pointer) Uint8x16     { return LoadUint8x16Array((*[16]uint8)(p)) }
func load32(p unsafe.Pointer) Uint8x32     { return LoadUint8x32Array((*[32]uint8)(p)) }
func load64(p unsafe.Pointer) Uint8x64     { return LoadUint8x64Array((*[64]uint8)(p)) }
func store32(v Uint8x32, p unsafe.Pointer) { v.StoreArray((*[32]uint8)(p)) }
func store64(v Uint8x64, p unsafe.Pointer) { v.StoreArray((*[64]uint8)(p)) }

// start returns the address of a slice's first byte.
//
// A pointer that has left the memory it points into is an error even if nothing reads there: the garbage collector ends
// the process when it finds one that points to where no object is. So kernels walk their slices by loops that leave
// before the step behind the last element, and work on one element at least; blobs have slack behind them, in which a
// pointer behind the last element still points into the blob.
func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// pair16 puts the 16 bytes at lo below the 16 at hi.
func pair16(lo, hi unsafe.Pointer) Uint8x32 {
	return Uint8x32{}.SetLo(load16(lo)).SetHi(load16(hi))
}

// prefixSum32 replaces each byte by the sum of the bytes up to it and 128, mod 256.
func prefixSum32(v Uint8x32) Uint8x32 {
	var zero Uint8x32
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 15))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 14))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 12))
	v = v.Add(v.ConcatShiftBytesRightGrouped(zero, 8))
	carry := v.GetLo().PermuteOrZero(BroadcastInt8x16(15))
	return v.SetHi(v.GetHi().Add(carry)).Xor(BroadcastUint8x32(128))
}

// transpose8x4 is transpose8 of each of four words. The constants are arguments so
// that they stay in registers.
func transpose8x4(v Uint8x32, m7, m14, m28, s7, s14, s28 Uint64x4) Uint8x32 {
	x := v.ReshapeToUint64s()
	t := x.Xor(x.ShiftRight(s7)).And(m7)
	x = x.Xor(t).Xor(t.ShiftLeft(s7))
	t = x.Xor(x.ShiftRight(s14)).And(m14)
	x = x.Xor(t).Xor(t.ShiftLeft(s14))
	t = x.Xor(x.ShiftRight(s28)).And(m28)
	return x.Xor(t).Xor(t.ShiftLeft(s28)).ReshapeToUint8s()
}

// predictAVX2 serves AVX-512 too: it does nothing but load, add and store. There is one chunk at least.
func predictAVX2(residuals []byte, rows *rowPair, chunks int, first bool) {
	if first {
		clear(rows.bottom)
	}
	src, o := start(residuals), 0
	top, bottom, stride := start(rows.top), start(rows.bottom), rows.stride
	for rest := 3 * chunks; ; src = unsafe.Add(src, 2*chunkColumns) {
		v := load32(src).Add(load32(unsafe.Add(bottom, o)))
		store32(v, unsafe.Add(top, o))
		store32(v.Add(load32(unsafe.Add(src, chunkColumns))), unsafe.Add(bottom, o))
		if rest--; rest == 0 {
			break
		}
		if o += stride; o >= 3*stride { // behind the third plane: on to the first one's next chunk
			o += chunkColumns - 3*stride
		}
	}
	if first {
		sumFirstRows(rows, chunks)
	}
}

// sumFirstRows turns the first two rows of a band from what they are if the row above is all zeros into what they are:
// the top row's samples are predicted by those to their left.
func sumFirstRows(rows *rowPair, chunks int) {
	top, bottom := start(rows.top), start(rows.bottom)
	for plane := range 3 {
		for c := range chunks {
			o := plane*rows.stride + c*chunkColumns
			residuals := load32(unsafe.Add(top, o))
			values := prefixSum32(residuals)
			store32(values, unsafe.Add(top, o))
			store32(load32(unsafe.Add(bottom, o)).Sub(residuals).Add(values), unsafe.Add(bottom, o))
		}
	}
}

// leadingOnes holds 32 bytes of ones and 32 zeros: 32 bytes from offset 32-n are n bytes of ones and zeros behind.
var leadingOnes = func() (t [64]uint8) {
	for i := range 32 {
		t[i] = 255
	}
	return t
}()

// measureAVX2 looks the two widths of each header byte up by VPSHUFB. A byte counts 16 at most and a row has 3,072, so that sums
// of pairs stay in 16 bits.
func measureAVX2(t *groupTables, dst, headers []byte, n, skip int) (total, before int) {
	table := load16(unsafe.Pointer(&t.width))
	widths := Uint8x32{}.SetLo(table).SetHi(table)
	nibble, one := BroadcastUint8x32(15), BroadcastInt8x32(1)
	var all, skipped Int16x16
	for at := 0; at < n; at += 32 {
		v := load32(unsafe.Pointer(&headers[at]))
		store32(v, unsafe.Pointer(&dst[at]))
		low := widths.PermuteOrZeroGrouped(v.And(nibble).BitsToInt8())
		high := widths.PermuteOrZeroGrouped(v.ReshapeToUint16s().ShiftAllRight(4).ReshapeToUint8s().And(nibble).BitsToInt8())
		both := low.Add(high).And(load32(unsafe.Pointer(&leadingOnes[32-min(n-at, 32)])))
		all = all.Add(both.DotProductPairsSaturated(one))
		both = both.And(load32(unsafe.Pointer(&leadingOnes[32-min(max(skip-at, 0), 32)])))
		skipped = skipped.Add(both.DotProductPairsSaturated(one))
	}
	return sumWords(all), sumWords(skipped)
}

// sumWords returns the sum of all words.
func sumWords(v Int16x16) int {
	dwords := v.DotProductPairs(BroadcastInt16x16(1))
	sums := dwords.GetLo().Add(dwords.GetHi()).ToBits().ReshapeToUint64s()
	sum := sums.GetElem(0) + sums.GetElem(1)
	return int(uint32(sum) + uint32(sum>>32))
}
