//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pointwise

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	k := kernelsAVX2
	k.line, k.lines = lineAVX2, linesAVX2
	byLevel[kernel.AVX2] = &k
}

// raisedAVX2 returns base[h] + offset[l], plus one where the bits say so, at most 255.
func raisedAVX2(h, l, base, offset, first, second, upTo7, from8, one Bytes) Bytes {
	more := Take(first, l).And(Take(upTo7, h)).Or(Take(second, l).And(Take(from8, h))).Min(one)
	return Take(base, h).AddSaturated(Take(offset, l)).AddSaturated(more)
}

// afterAVX2 returns ones where a byte is above before.
func afterAVX2(v, before, always, one Bytes) Bytes {
	return Bytes{}.Sub(v.SubSaturated(before).Min(one)).Or(always)
}

// lineAVX2 replaces all bytes by those of one line.
func lineAVX2(dst, src []byte, t *line) int {
	n, one, half := len(src)&^(vectorAVX2-1), BroadcastBytes(1), BroadcastBytes(15)
	start, before, always := Load(unsafe.Pointer(&t.start)), Load(unsafe.Pointer(&t.before)), Load(unsafe.Pointer(&t.always))
	base, offset := Load(unsafe.Pointer(&t.base)), Load(unsafe.Pointer(&t.offset))
	first, second := Load(unsafe.Pointer(&t.first)), Load(unsafe.Pointer(&t.second))
	upTo7, from8 := Load(unsafe.Pointer(&halfBits[0])), Load(unsafe.Pointer(&halfBits[1]))
	for at := 0; at < n; at += vectorAVX2 {
		p := unsafe.Pointer(&src[at])
		v := Load(p)
		x := v.SubSaturated(start)
		h, l := HalfOf(x).And(half), x.And(half)
		v = raisedAVX2(h, l, base, offset, first, second, upTo7, from8, one).And(afterAVX2(v, before, always, one))
		Store(v, unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

// onLineAVX2 replaces bytes by those of a line without a step.
func onLineAVX2(v Bytes, t *line, upTo7, from8, one, half Bytes) Bytes {
	x := v.SubSaturated(Load(unsafe.Pointer(&t.start)))
	return raisedAVX2(HalfOf(x).And(half), x.And(half), Load(unsafe.Pointer(&t.base)), Load(unsafe.Pointer(&t.offset)),
		Load(unsafe.Pointer(&t.first)), Load(unsafe.Pointer(&t.second)), upTo7, from8, one)
}

// linesAVX2 replaces the bytes of each channel by those of its line, which has no step.
func linesAVX2(dst, src []byte, t *[3]line) int {
	n, one, half := len(src)/pixelsAVX2*pixelsAVX2, BroadcastBytes(1), BroadcastBytes(15)
	upTo7, from8 := Load(unsafe.Pointer(&halfBits[0])), Load(unsafe.Pointer(&halfBits[1]))
	for at := 0; at < n; at += pixelsAVX2 {
		p := unsafe.Pointer(&src[at])
		v0, v1, v2 := LoadPixels(p)
		r := onLineAVX2(Channel(v0, v1, v2, 0), &t[0], upTo7, from8, one, half)
		g := onLineAVX2(Channel(v0, v1, v2, 1), &t[1], upTo7, from8, one, half)
		StoreChannels(r, g, onLineAVX2(Channel(v0, v1, v2, 2), &t[2], upTo7, from8, one, half), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}
