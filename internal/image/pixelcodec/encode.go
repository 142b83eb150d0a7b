package pixelcodec

// pairEncoder turns an image into residuals, two rows at a time from the top.
//
// The residuals of a pair are those of its chunks; a chunk's are, for each plane, the 32 of the top row and then the 32
// of the bottom row.
type pairEncoder struct {
	kernels   *kernels
	rgb       []byte
	stride    int
	head      header
	above     []byte // the row above as planes, chunk by chunk: 32 of G, 32 of R−G+128, 32 of B−G+128
	residuals []byte
	edge      [2][3 * chunkColumns]byte // the last chunk's pixels, padded
}

func (e *pairEncoder) begin(k *kernels, rgb []byte, stride int, head header) {
	e.kernels, e.rgb, e.stride, e.head = k, rgb, stride, head
	n := head.chunks()
	if cap(e.above) < 3*chunkColumns*n {
		e.above = make([]byte, 3*chunkColumns*n)
		e.residuals = make([]byte, chunkResiduals*n)
	}
	e.above, e.residuals = e.above[:3*chunkColumns*n], e.residuals[:chunkResiduals*n]
}

// pair returns the residuals of rows y and y+1; first says that a band starts there. An odd image's last row counts
// twice. The residuals of columns right of the image are zero. They are valid until the next call.
func (e *pairEncoder) pair(y int, first bool) []byte {
	rowBytes := 3 * e.head.width
	top := e.rgb[y*e.stride:][:rowBytes]
	bottom := top
	if y+1 < e.head.height {
		bottom = e.rgb[(y+1)*e.stride:][:rowBytes]
	}
	whole := e.head.width / chunkColumns
	e.kernels.residuals(e.residuals, top, bottom, e.above, whole, first)
	if rest := e.head.width % chunkColumns; rest != 0 {
		const chunkBytes = 3 * chunkColumns
		copy(e.edge[0][:], top[chunkBytes*whole:])
		copy(e.edge[1][:], bottom[chunkBytes*whole:])
		last := e.residuals[chunkResiduals*whole:]
		e.kernels.residuals(last, e.edge[0][:], e.edge[1][:], e.above[chunkBytes*whole:], 1, first)
		for row := 0; row < chunkResiduals; row += chunkColumns {
			clear(last[row+rest : row+chunkColumns])
		}
	}
	return e.residuals
}
