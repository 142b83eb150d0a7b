//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// threefold repeats each byte of a lane three times, and together interleaves three channels: entry v is for vector v
// of StorePixels. together's entry [v][c] has the index of each byte in channel c, or 128.
var threefold, together = func() (t [3][16 * Count]uint8, u [3][3][16 * Count]uint8) {
	for v := range 3 {
		for i := range 16 * Count {
			place := 16*v + i%16
			t[v][i] = uint8(place / 3)
			for c := range 3 {
				if u[v][c][i] = 128; place%3 == c {
					u[v][c][i] = uint8(place / 3)
				}
			}
		}
	}
	return t, u
}()

// StoreGray stores pixels with v as all three channels.
func StoreGray(v Bytes, p unsafe.Pointer) {
	t := &threefold
	StorePixels(Take(v, Load(unsafe.Pointer(&t[0]))), Take(v, Load(unsafe.Pointer(&t[1]))), Take(v, Load(unsafe.Pointer(&t[2]))), p)
}

// StoreChannels stores pixels from channels, the inverse of Channel.
func StoreChannels(r, g, b Bytes, p unsafe.Pointer) {
	t := &together
	v0 := Take(r, Load(unsafe.Pointer(&t[0][0]))).Or(Take(g, Load(unsafe.Pointer(&t[0][1])))).Or(Take(b, Load(unsafe.Pointer(&t[0][2]))))
	v1 := Take(r, Load(unsafe.Pointer(&t[1][0]))).Or(Take(g, Load(unsafe.Pointer(&t[1][1])))).Or(Take(b, Load(unsafe.Pointer(&t[1][2]))))
	v2 := Take(r, Load(unsafe.Pointer(&t[2][0]))).Or(Take(g, Load(unsafe.Pointer(&t[2][1])))).Or(Take(b, Load(unsafe.Pointer(&t[2][2]))))
	StorePixels(v0, v1, v2, p)
}

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

// Replace replaces bytes by those of a table: those below 128, and separately the others, which are negative as signed
// bytes.
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
