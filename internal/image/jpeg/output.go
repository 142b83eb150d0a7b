package jpeg

import (
	"image"
	"slices"
)

// An output is the caller's region, and the next row of it to write.
type output struct {
	dst    []byte
	stride int
	region image.Rectangle
	y      int
}

// emit writes the rows that are complete after MCU row mcuY is in the planes. A vertical filter makes the row's last
// pixels wait for the samples below.
func (d *Decoder) emit(out *output, mcuY int) {
	if d.hFilter {
		d.planes.replicateEdges(&d.frame, mcuY)
	}
	limit := (mcuY + 1) * d.vMax * 8
	if d.vFilter {
		limit--
	}
	if mcuY == d.mcusHigh-1 {
		limit = d.height
	}
	for ; out.y < min(limit, out.region.Max.Y); out.y++ {
		var rows [4][]byte
		for c := range d.components {
			rows[c] = d.componentRow(c, out.y, out.region.Min.X, out.region.Max.X)
		}
		dst := out.dst[(out.y-out.region.Min.Y)*out.stride:][:out.region.Dx()*3]
		d.convertRow(d.colors, dst, &rows)
	}
}

// componentRow returns a component's row y at the image's size, from pixel column x0 to x1 and some bytes beyond.
func (d *Decoder) componentRow(i, y, x0, x1 int) []byte {
	c, p := &d.components[i], &d.planes.component[i]
	if c.upsampling == upsampleNone {
		return p.row(y)[planeMargin+x0-p.x0:]
	}
	dst := d.planes.upsampled[i]
	near, far := c.nearAndFar(y)
	s0, s1 := x0/2, (x1+1)/2
	switch c.upsampling {
	case upsampleH2V1:
		row := p.row(y)[planeMargin+s0-p.x0-1:]
		d.kernels.upsampleH2(dst, row, row, s1-s0, 4, 8)
		return dst[x0-2*s0:]
	case upsampleH1V2:
		upsampleV2(dst[:(x1-x0+7)&^7], p.row(near)[planeMargin+x0-p.x0:], p.row(far)[planeMargin+x0-p.x0:], uint64(1+y&1))
		return dst
	case upsampleH2V2:
		d.kernels.upsampleH2(dst, p.row(near)[planeMargin+s0-p.x0-1:], p.row(far)[planeMargin+s0-p.x0-1:], s1-s0, 8, 7)
		return dst[x0-2*s0:]
	}
	hFactor, vFactor := d.hMax/c.h, d.vMax/c.v
	s0, s1 = x0/hFactor, ceilDiv(x1, hFactor)
	src := p.row(y / vFactor)[planeMargin+s0-p.x0:]
	for s := range s1 - s0 {
		for j := range hFactor {
			dst[s*hFactor+j] = src[s]
		}
	}
	return dst[x0-s0*hFactor:]
}

// nearAndFar returns the two sample rows with weights 3/4 and 1/4 in pixel row y. At the image's edges both are the last.
func (c *component) nearAndFar(y int) (near, far int) {
	near = y / 2
	far = near - 1 + y&1*2
	return near, max(0, min(far, c.height-1))
}

func (d *Decoder) convertRow(model colorModel, dst []byte, rows *[4][]byte) {
	switch model {
	case colorGray:
		d.kernels.grayToRGB(dst, rows[0])
	case colorYCbCr:
		d.kernels.ycbcrToRGB(dst, rows[0], rows[1], rows[2])
	case colorRGB:
		interleave(dst, rows[0], rows[1], rows[2])
	case colorCMYK:
		for i := range len(dst) / 3 {
			black := rows[3][i]
			dst[3*i] = addInk(255-rows[0][i], black)
			dst[3*i+1] = addInk(255-rows[1][i], black)
			dst[3*i+2] = addInk(255-rows[2][i], black)
		}
	case colorYCCK:
		// libjpeg converts YCC to CMY = 255 - RGB, and Pillow inverts that, so YCC's RGB is the amount of ink.
		d.kernels.ycbcrToRGB(dst, rows[0], rows[1], rows[2])
		for i := range len(dst) / 3 {
			black := rows[3][i]
			for c := range 3 {
				dst[3*i+c] = addInk(dst[3*i+c], black)
			}
		}
	}
}

// addInk is Pillow's cmyk2rgb for one channel: ink reduces the light that black has left (Adobe stores 255 - K) to
// light - MULDIV255(ink, light).
func addInk(ink, light byte) byte {
	t := uint(ink)*uint(light) + 128
	return light - byte((t>>8+t)>>8)
}

func interleave(dst, r, g, b []byte) {
	n := len(dst) / 3
	r, g, b = r[:n], g[:n], b[:n]
	for i := range n {
		dst[3*i], dst[3*i+1], dst[3*i+2] = r[i], g[i], b[i]
	}
}

// planeMargin is the number of bytes before and after each row of a plane, for the sample that upsampling reads left of
// the first, and for vectors that reach beyond the last. The length of planes' rows is a multiple of it.
const planeMargin = 64

// A plane holds the samples of one component in two MCU rows of the region: the current one, and the previous one for
// vertical filters, which read its last sample row. Sample row y is in row y mod rows, so that a plane of an ordinary
// photograph fits into the second-level cache.
type plane struct {
	pix    []byte
	stride int
	rows   int
	x0     int // the component's column of the plane's first sample
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

// planes are the component planes of one region, and the upsampled rows.
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
	b = slices.Grow(b[:0], n)
	return b[:cap(b)]
}

// replicateEdges writes the samples outside the image's left and right edge that horizontal filters read, in an MCU row.
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
