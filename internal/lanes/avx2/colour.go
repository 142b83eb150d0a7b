//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// FillTable converts a table of 256 bytes for Replace: 16 entries for each value of a byte's upper half, in every lane.
// They are differences from those of the previous value; for 0 and 8 they are the entries themselves.
func FillTable(t *[1024]uint8, bytes *[256]uint8) {
	for k := range 16 {
		row := LoadRepeated(unsafe.Pointer(&bytes[16*k]))
		if k%8 != 0 {
			row = row.Xor(LoadRepeated(unsafe.Pointer(&bytes[16*k-16])))
		}
		Store(row, unsafe.Pointer(&t[16*Count*k]))
	}
	Leave()
}

// Replace replaces bytes by those of a table: those below 128, and separately the others, which are negative as signed bytes.
func Replace(v Bytes, t *[1024]uint8) Bytes {
	return replaceHalf(v, unsafe.Pointer(t)).Or(replaceHalf(v.Xor(BroadcastBytes(128)), unsafe.Add(unsafe.Pointer(t), 128*Count)))
}

// replaceHalf replaces bytes below 128, and others by 0. It lowers bytes by 16 at a time. After as many steps as its
// upper half a byte is negative, and Take gives 0 for it.
func replaceHalf(v Bytes, t unsafe.Pointer) Bytes {
	x, step := v.BitsToInt8(), archsimd.BroadcastInt8x32(16)
	all := Load(t).PermuteOrZeroGrouped(x)
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 16*Count)).PermuteOrZeroGrouped(x))
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 32*Count)).PermuteOrZeroGrouped(x))
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 48*Count)).PermuteOrZeroGrouped(x))
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 64*Count)).PermuteOrZeroGrouped(x))
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 80*Count)).PermuteOrZeroGrouped(x))
	x = x.SubSaturated(step)
	all = all.Xor(Load(unsafe.Add(t, 96*Count)).PermuteOrZeroGrouped(x))
	return all.Xor(Load(unsafe.Add(t, 112*Count)).PermuteOrZeroGrouped(x.SubSaturated(step)))
}
