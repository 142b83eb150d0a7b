package jpeg

// planeMargin is how many bytes there are beside each row of a plane: room for the sample that upsampling reads left of
// the first, and for vectors that reach beyond the last. Planes' rows are multiples of it.
const planeMargin = 64

// A plane holds the samples of one component in two MCU rows of the region: the one just decoded, and the one before,
// whose last sample row the filters down still read. Sample row y stands in row y mod rows, so that a plane of an
// ordinary photograph stays in the second-level cache at the most.
type plane struct {
	pix    []byte
	stride int
	rows   int
	x0     int // the component's sample column at the plane's first
	width  int // samples, whole quads
}

// at returns the plane from the sample at column x of the plane in the component's row y.
func (p *plane) at(x, y int) []byte {
	return p.pix[y%p.rows*p.stride+planeMargin+x:]
}

// row returns a sample row from planeMargin before the plane's first column.
func (p *plane) row(y int) []byte {
	start := y % p.rows * p.stride
	return p.pix[start : start+p.stride]
}

// planes are the component planes of one region, and rows for what upsampling makes of them.
type planes struct {
	component [4]plane
	upsampled [4][]byte
}

// prepare sizes the planes for a grid.
func (ps *planes) prepare(f *frame, g *grid) {
	for i := range f.components {
		c, p := &f.components[i], &ps.component[i]
		mcus := (g.mcuX1 - g.mcuX0 + batchMCUs - 1) &^ (batchMCUs - 1)
		p.x0, p.width, p.rows = g.mcuX0*c.h*8, mcus*c.h*8, 2*8*c.v
		p.stride = p.width + 2*planeMargin
		p.pix = grow(p.pix, p.stride*p.rows)
		if c.upsampling != upsampleNone {
			ps.upsampled[i] = grow(ps.upsampled[i], mcus*f.hMax*8+2*planeMargin)
		}
	}
}

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n+n/4)
	}
	return b[:cap(b)]
}

// replicateEdges writes the samples beside the image's left and right edge that the filters across read, in an MCU row.
func (ps *planes) replicateEdges(f *frame, mcuY int) {
	for i := range f.components {
		c, p := &f.components[i], &ps.component[i]
		if c.upsampling != upsampleH2V1 && c.upsampling != upsampleH2V2 {
			continue
		}
		right := c.width - p.x0
		for y := mcuY * c.v * 8; y < (mcuY+1)*c.v*8; y++ {
			row := p.row(y)[planeMargin-1:]
			if p.x0 == 0 {
				row[0] = row[1]
			}
			if right <= p.width {
				row[1+right] = row[right]
			}
		}
	}
}
