package jpeg

import "image"

// A colorModel is the meaning of the components, by libjpeg's rules.
type colorModel uint8

const (
	colorGray colorModel = iota
	colorYCbCr
	colorRGB
	colorCMYK
	colorYCCK
)

// A component is one plane of the image, as the frame header describes it.
type component struct {
	id        byte
	h, v      int // sampling factors
	quantSlot int

	width, height int // samples
	blocksWide    int // width in blocks in a scan of this component alone
	blocksHigh    int
	upsampling    upsampling

	hasQuant bool
	steps    [64]int16 // the quantisation table, in natural order; zero until a scan of the component
}

// An upsampling is libjpeg's method of scaling a component to the image's size.
type upsampling uint8

const (
	upsampleNone      upsampling = iota
	upsampleH2V1                 // 2:1 across, triangle filter
	upsampleH1V2                 // 2:1 down, triangle filter
	upsampleH2V2                 // 2:1 both ways, triangle filter
	upsampleReplicate            // any whole factors, samples repeated
)

// A frame is the content of an SOF segment, and values derived from it.
type frame struct {
	width, height    int
	progressive      bool
	components       []component // nil until a frame header was read
	storage          [4]component
	hMax, vMax       int
	mcusWide         int // width of an interleaved scan in MCUs
	mcusHigh         int
	hFilter, vFilter bool // some component's upsampling reads its neighbours across, down
}

func (p *parser) parseSOF(marker byte, s []byte, start int) error {
	f := &p.frame
	switch {
	case f.components != nil:
		return formatError(start, "a second frame header")
	case marker == 0xc9 || marker == 0xca || marker >= 0xcd:
		return &UnsupportedError{Msg: "arithmetic coding: convert the file without loss by jpegtran -copy all -outfile NEW.jpg OLD.jpg"}
	case marker > markerSOF2:
		return &UnsupportedError{Msg: "lossless or hierarchical coding"}
	case len(s) < 6 || len(s) != 6+3*int(s[5]):
		return formatError(start, "frame header of %d bytes, which does not fit its component count", len(s))
	case s[0] != 8:
		return &UnsupportedError{Msg: "samples of more or less than 8 bits"}
	}
	f.progressive = marker == markerSOF2
	f.height, f.width = int(s[1])<<8|int(s[2]), int(s[3])<<8|int(s[4])
	if f.width == 0 || f.height == 0 {
		return formatError(start, "image of %d×%d pixels", f.width, f.height)
	}
	if f.width > MaxSide || f.height > MaxSide || f.width*f.height > MaxPixels {
		return &LimitError{Width: f.width, Height: f.height}
	}
	count := int(s[5])
	if count != 1 && count != 3 && count != 4 {
		return &UnsupportedError{Msg: "number of components other than 1, 3 and 4"}
	}
	f.components = f.storage[:count]
	for i := range f.components {
		c := &f.components[i]
		*c = component{id: s[6+3*i], h: int(s[7+3*i] >> 4), v: int(s[7+3*i] & 15), quantSlot: int(s[8+3*i])}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 {
			return formatError(start, "sampling factors %d×%d, want 1 to 4", c.h, c.v)
		}
		if count == 1 {
			c.h, c.v = 1, 1
		}
		f.hMax, f.vMax = max(f.hMax, c.h), max(f.vMax, c.v)
	}
	return f.derive()
}

// derive computes sizes, and chooses each component's upsampling as jdsample.c does.
func (f *frame) derive() error {
	f.mcusWide = ceilDiv(f.width, 8*f.hMax)
	f.mcusHigh = ceilDiv(f.height, 8*f.vMax)
	for i := range f.components {
		c := &f.components[i]
		c.width, c.height = ceilDiv(f.width*c.h, f.hMax), ceilDiv(f.height*c.v, f.vMax)
		c.blocksWide, c.blocksHigh = ceilDiv(c.width, 8), ceilDiv(c.height, 8)
		switch {
		case c.h == f.hMax && c.v == f.vMax:
			c.upsampling = upsampleNone
		case c.h*2 == f.hMax && c.v == f.vMax && c.width > 2:
			c.upsampling = upsampleH2V1
		case c.h == f.hMax && c.v*2 == f.vMax:
			c.upsampling = upsampleH1V2
		case c.h*2 == f.hMax && c.v*2 == f.vMax && c.width > 2:
			c.upsampling = upsampleH2V2
		case f.hMax%c.h == 0 && f.vMax%c.v == 0:
			c.upsampling = upsampleReplicate
		default:
			return &UnsupportedError{Msg: "sampling factors that are not a whole fraction of the largest"}
		}
		f.hFilter = f.hFilter || c.upsampling == upsampleH2V1 || c.upsampling == upsampleH2V2
		f.vFilter = f.vFilter || c.upsampling == upsampleH1V2 || c.upsampling == upsampleH2V2
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// model determines the colour model like libjpeg's default_decompress_parms.
func (p *parser) model() colorModel {
	switch len(p.components) {
	case 1:
		return colorGray
	case 3:
		ids := [3]byte{p.components[0].id, p.components[1].id, p.components[2].id}
		switch {
		case p.seenJFIF:
			return colorYCbCr
		case p.adobeTransform == 0, p.adobeTransform < 0 && ids == [3]byte{'R', 'G', 'B'}:
			return colorRGB
		}
		return colorYCbCr
	}
	if p.adobeTransform <= 0 {
		return colorCMYK
	}
	return colorYCCK
}

// A grid is the range of MCUs that a region needs.
type grid struct {
	mcuX0, mcuX1 int
	mcuY0, mcuY1 int
}

// plan finds the MCUs of a region. With a triangle filter, pixel 2n+1 reads sample n+1 like pixel 2n+2, so the region
// grows by one pixel on each side in the filter's direction.
//
// If wholeQuads is set, the first column is rounded down to a multiple of four, so that each component's part starts at
// a quad of the coefficient buffer.
func (g *grid) plan(f *frame, r image.Rectangle, wholeQuads bool) {
	if f.hFilter {
		r.Min.X, r.Max.X = max(r.Min.X-1, 0), min(r.Max.X+1, f.width)
	}
	if f.vFilter {
		r.Min.Y, r.Max.Y = max(r.Min.Y-1, 0), min(r.Max.Y+1, f.height)
	}
	g.mcuX0, g.mcuX1 = r.Min.X/(8*f.hMax), ceilDiv(r.Max.X, 8*f.hMax)
	g.mcuY0, g.mcuY1 = r.Min.Y/(8*f.vMax), ceilDiv(r.Max.Y, 8*f.vMax)
	if wholeQuads {
		g.mcuX0 &^= 3
	}
}
