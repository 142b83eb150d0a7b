package coefficients

// Tables of the vector kernels' byte look-ups; the index 128 gives zero.
const noByte = 128

// A spreadTable says which bytes of a source spread to 16 bytes, and how many they are.
type spreadTable struct {
	indices [16]uint8 // indices in the source
	bytes   int       // length of the source
}

// spreadWords spreads words to the set bits of an eight-bit mask.
var spreadWords = func() (t [256]spreadTable) {
	for mask := range t {
		s := &t[mask]
		for bit := range 8 {
			s.indices[2*bit], s.indices[2*bit+1] = noByte, noByte
			if mask>>bit&1 != 0 {
				s.indices[2*bit], s.indices[2*bit+1] = uint8(s.bytes), uint8(s.bytes+1)
				s.bytes += 2
			}
		}
	}
	return t
}()

// planesOfTwo moves the planes of two chunks, by the six bits of their widths, to the bytes that a transposition of bit matrices expects.
var planesOfTwo = func() (t [64]spreadTable) {
	for widths := range t {
		s := &t[widths]
		for chunk := range 2 {
			w := widths>>(3*chunk)&7 + 1
			for bit := range 8 {
				s.indices[8*chunk+bit] = noByte
				if bit < w-1 {
					s.indices[8*chunk+bit] = uint8(s.bytes + w - 1 - bit)
				}
			}
			s.indices[8*chunk+7] = uint8(s.bytes)
			s.bytes += w
		}
	}
	return t
}()

// spreadBytes spreads values to the set bits of an eight-bit mask, two columns of four blocks, and groups them by block.
var spreadBytes = func() (t [256][8]uint8) {
	for mask := range t {
		n := uint8(0)
		for bit := range 8 {
			at := bit&3*2 + bit>>2
			t[mask][at] = noByte
			if mask>>bit&1 != 0 {
				t[mask][at] = n
				n++
			}
		}
	}
	return t
}()

// gatherBytes gathers the bytes at the set bits of a mask, from the first eight bytes or from the eight after them.
var gatherBytes = func() (t [2][256][8]uint8) {
	for mask := range 256 {
		n := 0
		for bit := range uint8(8) {
			if mask>>bit&1 != 0 {
				t[0][mask][n], t[1][mask][n] = bit, bit+8
				n++
			}
		}
	}
	return t
}()

// smallBytes is the largest distance from zero of listed bytes that are certainly not saturated.
var smallBytes = [16]uint8{125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125, 125}

// firstRows makes the rows of a first cell from its twelve values, in the order of spreadBytes.
var firstRows = func() (t [2][16]uint8) {
	for i := range 32 {
		t[i/16][i%16] = noByte
	}
	for bit := 4; bit < 16; bit++ {
		t[bit>>3][bit&3*2+bit>>2&1] = uint8(bit - 4)
	}
	return t
}()
