package jpeg

import "encoding/binary"

// Constants of the IDCT by Loeffler, Ligtenberg and Moschytz (ICASSP 1989), with 13 fractional bits, as in libjpeg's jidctint.c.
const (
	fix0298631336 = 2446
	fix0390180644 = 3196
	fix0541196100 = 4433
	fix0765366865 = 6270
	fix0899976223 = 7373
	fix1175875602 = 9633
	fix1501321110 = 12299
	fix1847759065 = 15137
	fix1961570560 = 16069
	fix2053119869 = 16819
	fix2562915447 = 20995
	fix3072711026 = 25172

	idctBits  = 13
	pass1Bits = 2 // fractional bits kept between the passes

	// Rounding and shift of the passes. The second includes the 8 of the transform's scale, and moves samples
	// from -128..127 to 0..255, so that saturating to unsigned numbers clamps them.
	shift1 = idctBits - pass1Bits
	round1 = 1 << (shift1 - 1)
	shift2 = idctBits + pass1Bits + 3
	round2 = 1<<(shift2-1) + 128<<shift2
)

// idctGeneric dequantises and transforms four blocks, columns first, like libjpeg-turbo's vector code. That differs from jidctint.c for
// coefficients that only damaged files have: products with the quantisation step and sums of two inputs wrap at 16 bits, and the first pass
// saturates to 16 bits. For a block with coefficients only in its first row the first pass is a shift, which wraps.
func idctGeneric(q, quant *quad, dst []byte, stride int) {
	for block := range 4 {
		var work [64]int32
		firstRowOnly := true
		for i := 32 + block*8; i < len(q); i += 32 {
			firstRowOnly = firstRowOnly && [8]int16(q[i:]) == [8]int16{}
		}
		for column := range 8 {
			var in [8]int32
			for row := range 8 {
				i := row*32 + block*8 + column
				in[row] = int32(q[i] * quant[i])
			}
			top := in[0]
			switch {
			case firstRowOnly:
				top = int32(int16(top << pass1Bits))
			case in[1]|in[2]|in[3]|in[4]|in[5]|in[6]|in[7] == 0:
				top = saturate16(top << pass1Bits)
			default:
				idct1D(&in, round1, shift1)
				for row := range 8 {
					work[row*8+column] = saturate16(in[row])
				}
				continue
			}
			for row := range 8 {
				work[row*8+column] = top
			}
		}
		for row := range 8 {
			in := (*[8]int32)(work[row*8:])
			idct1D(in, round2, shift2)
			out := dst[row*stride+block*8:][:8]
			for i, v := range in {
				out[i] = clamp8(v)
			}
		}
	}
	*q = quad{}
}

// idct1D transforms eight 16-bit values, adds round and shifts.
func idct1D(v *[8]int32, round int32, shift uint) {
	t2 := v[2]*fix0541196100 + v[6]*(fix0541196100-fix1847759065)
	t3 := v[2]*(fix0541196100+fix0765366865) + v[6]*fix0541196100
	t0 := int32(int16(v[0]+v[4]))<<idctBits + round
	t1 := int32(int16(v[0]-v[4]))<<idctBits + round
	e0, e3 := t0+t3, t0-t3
	e1, e2 := t1+t2, t1-t2

	s3, s4 := int32(int16(v[7]+v[3])), int32(int16(v[5]+v[1]))
	z1 := (v[7] + v[1]) * -fix0899976223
	z2 := (v[5] + v[3]) * -fix2562915447
	z3 := s3*(fix1175875602-fix1961570560) + s4*fix1175875602
	z4 := s3*fix1175875602 + s4*(fix1175875602-fix0390180644)
	o0 := v[7]*fix0298631336 + z1 + z3
	o1 := v[5]*fix2053119869 + z2 + z4
	o2 := v[3]*fix3072711026 + z2 + z3
	o3 := v[1]*fix1501321110 + z1 + z4

	v[0], v[7] = (e0+o3)>>shift, (e0-o3)>>shift
	v[1], v[6] = (e1+o2)>>shift, (e1-o2)>>shift
	v[2], v[5] = (e2+o1)>>shift, (e2-o1)>>shift
	v[3], v[4] = (e3+o0)>>shift, (e3-o0)>>shift
}

func saturate16(v int32) int32 { return max(-1<<15, min(1<<15-1, v)) }

// idctDCGeneric is idctGeneric for blocks without AC coefficients.
func idctDCGeneric(q, quant *quad, dst []byte, stride int) {
	for block := range 4 {
		sample := sampleOfDC(q[block*8] * quant[block*8])
		q[block*8] = 0
		for row := range 8 {
			out := dst[row*stride+block*8:][:8]
			for i := range out {
				out[i] = sample
			}
		}
	}
}

// sampleOfDC is the result of both passes for a DC coefficient alone: 4·DC, then (4·DC + 16) >> 5, plus 128.
func sampleOfDC(dc int16) byte { return clamp8((int32(dc<<pass1Bits)+16)>>5 + 128) }

// upsampleH2Generic is h2v2_fancy_upsample with its rounding, 8 and 7: the triangle down without rounding, then the
// triangle across. With the same row twice, and 4 and 8, it is h2v1_fancy_upsample. At the image's edges the missing
// sample equals the last, so the result is the last, as in libjpeg.
func upsampleH2Generic(dst, near, far []byte, count, left, right int) {
	near, far, dst = near[:count+2], far[:count+2], dst[:2*count]
	before, this := 3*uint(near[0])+uint(far[0]), 3*uint(near[1])+uint(far[1])
	for i := range count {
		after := 3*uint(near[i+2]) + uint(far[i+2])
		dst[2*i] = byte((3*this + before + uint(left)) >> 4)
		dst[2*i+1] = byte((3*this + after + uint(right)) >> 4)
		before, this = this, after
	}
}

// upsampleV2 is h1v2_fancy_upsample, the triangle only down, for a multiple of eight samples. bias is 1 for the upper and
// 2 for the lower of two pixel rows. Few files have this subsampling.
func upsampleV2(dst, near, far []byte, bias uint64) {
	const bytes = 0x00ff00ff00ff00ff
	bias *= 1 + 1<<16 + 1<<32 + 1<<48
	for i := 0; i < len(dst); i += 8 {
		n, f := binary.LittleEndian.Uint64(near[i:]), binary.LittleEndian.Uint64(far[i:])
		even := (3*(n&bytes) + f&bytes + bias) >> 2 & bytes
		odd := (3*(n>>8&bytes) + f>>8&bytes + bias) >> 2 & bytes
		binary.LittleEndian.PutUint64(dst[i:], even|odd<<8)
	}
}

// ycbcrToRGBGeneric is ycc_rgb_convert of jdcolor.c, with 16 fractional bits.
func ycbcrToRGBGeneric(dst, y, cb, cr []byte) {
	n := len(dst) / 3
	y, cb, cr, dst = y[:n], cb[:n], cr[:n], dst[:3*n]
	for i := range n {
		yy, b, r := int32(y[i]), int32(cb[i])-128, int32(cr[i])-128
		dst[3*i] = clamp8(yy + (91881*r+1<<15)>>16)
		dst[3*i+1] = clamp8(yy + (-22554*b-46802*r+1<<15)>>16)
		dst[3*i+2] = clamp8(yy + (116130*b+1<<15)>>16)
	}
}

// Factors of the colour conversion for words. Those of jdcolor.c have 16 fractional bits and do not fit, so the integer
// part is added separately. 1.402 for R is 1 + 26345/2^16, and 1.772 for B is 2 - 14942/2^16, both with the doubled
// chroma, and halved with rounding. -0.71414 for G is -1 + 18734/2^16.
const (
	redOfCr   = 26345
	blueOfCb  = -14942
	greenOfCb = -22554
	greenOfCr = 18734
)

func clamp8(v int32) byte { return byte(max(0, min(255, v))) }

func grayToRGBGeneric(dst, y []byte) {
	for i, v := range y[:len(dst)/3] {
		dst[3*i], dst[3*i+1], dst[3*i+2] = v, v, v
	}
}
