// Package jpeg decodes JPEG images (ITU-T T.81) to RGB, with the same bits as Pillow on libjpeg-turbo at its default
// settings: the accurate integer IDCT, triangle ("fancy") upsampling for 2:1 horizontally, vertically and both, libjpeg's
// fixed-point colour conversion, and Pillow's conversion of CMYK to RGB.
//
// It takes Huffman-coded baseline, extended sequential and progressive files of 8 bits a sample with one, three or four
// components, any sampling factors that libjpeg takes, restart intervals and any number of scans.
//
// A [Decoder] decodes a region, and no more of the file than that needs: with the index that [Decoder.AppendIndex] makes
// of a sequential file, entropy decoding starts near the region in each row; without one it starts at the scan's
// beginning. The IDCT and all that follows run inside the region only.
//
// A sequential file can also be taken apart into its coefficients and the rest, decoded from these, and put together again to the byte:
// [Decoder.ReadCoefficients], [Decoder.ResetCoefficients] and [Decoder.AppendFile].
//
// Files that libjpeg patches up with a warning (an invalid code, data that end too early, a restart marker out of turn) give
// the pixels that it makes of them, grey ones and garbage included, since those who train with Pillow have them; [Decoder.Damage]
// tells. Files that Pillow refuses give a [FormatError], with one exception: a sequential file that lacks EOI and nothing else
// is always taken, and by Pillow sometimes.
//
// Two things are left out on purpose, and give an [UnsupportedError]: arithmetic coding, of which Pillow reads no file above 64 KiB, and progressive files that end before
// the last bits of their low coefficients, which libjpeg smooths, each release in its own way.
package jpeg

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Config describes an image without its pixels.
type Config struct {
	Width, Height int
	Components    int    // 1 (greyscale), 3 (YCbCr or RGB) or 4 (CMYK or YCCK)
	Progressive   bool   // SOF2: no index, and the whole file is decoded for any region
	Subsampling   string // of colour against brightness: 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, or other; 4:0:0 has no colour
}

// DecodeConfig reads a file's header up to its frame. The errors are those of [Decoder.Reset].
func DecodeConfig(data []byte) (Config, error) {
	p := parser{data: data}
	if err := p.start(); err != nil {
		return Config{}, err
	}
	if err := p.advance(true); err != nil {
		return Config{}, err
	}
	return p.config(), nil
}

// A Decoder decodes one image after another and keeps its buffers between them, so that it allocates nothing once it has
// met the largest. The zero value is ready and uses the generic kernels. It must not be used by two goroutines at a time.
type Decoder struct {
	parser
	kernels kernels
	ready   bool // Reset succeeded and Decode has not been called
	streams bool // the image is one sequential scan of all components, which can be decoded row by row
	index   []byte
	colors  colorModel // by the markers before the first scan
	damage  error

	tables  [2][4]huffmanTable // DC, AC
	singles [1 << lookupBits]uint64
	scan    scanBuffer
	batch   []batchQuad // the coefficients of one batch of MCUs, all zero between batches
	quants  []batchQuad // each component's quantisation steps, for each of four blocks
	blocks  [batchBlocksMax]plannedBlock
	quads   [mcuBlocksMax]QuadPlace
	entries []rowEntries

	source  QuadSource // gives the coefficients, if there is no file
	lent    [mcuBlocksMax]*Quad
	extents [mcuBlocksMax]uint8
	parts   *parts

	grid   grid
	planes planes
	coefs  coefficients
}

// New returns a Decoder with the kernels of a level, which must be one of [kernel.Available].
func New(level kernel.Level) *Decoder {
	d := new(Decoder)
	d.kernels = kernelsFor(level)
	return d
}

// Reset begins an image: it reads the header up to the first scan. data is a whole file, and index is what AppendIndex
// made of it, or empty. Both are read, and must not change, until Decode returns. docs/format/jpeg-index.md says how far
// a wrong index is told.
//
// Errors are a [FormatError], an [UnsupportedError] or a [LimitError]. An index is not looked at here.
func (d *Decoder) Reset(data, index []byte) (Config, error) {
	d.ready = false
	d.parser.reset(data)
	d.coefs.release()
	d.index, d.damage, d.source = index, nil, nil
	if err := d.start(); err != nil {
		return Config{}, err
	}
	if err := d.advance(false); err != nil {
		return Config{}, err
	}
	if d.kernels.idct == nil {
		d.kernels = kernelsFor(kernel.Generic)
	}
	if d.batch == nil {
		d.batch = alignedQuads(mcuBlocksMax)
		d.quants = alignedQuads(4)
		for i := range d.lent {
			d.lent[i] = &d.batch[i].quad
		}
	}
	d.colors = d.model()
	d.streams = !d.progressive && len(d.scanHeader.components) == len(d.components)
	d.ready = true
	return d.config(), nil
}

// Decode writes the RGB pixels of r, which must lie within the image, to dst: pixel (x, y) at
// (y-r.Min.Y)*stride + (x-r.Min.X)*3. Bytes between rows are left alone. It may be called once after Reset.
//
// If an error is returned, dst holds some of the pixels. A region is decoded only as far as it needs, so damage after it
// in the file may go unnoticed.
func (d *Decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	switch {
	case !d.ready:
		panic("jpeg: Decode without a successful Reset before")
	case r.Empty() || !r.In(image.Rect(0, 0, d.width, d.height)):
		panic("jpeg: region is empty or outside the image")
	case stride < r.Dx()*3 || len(dst) < (r.Dy()-1)*stride+r.Dx()*3:
		panic("jpeg: destination is too small for the region")
	}
	d.ready = false
	d.grid.plan(&d.frame, r, !d.streams || d.source != nil)
	d.planes.prepare(&d.frame, &d.grid)
	out := output{dst: dst, stride: stride, region: r, y: r.Min.Y}
	switch {
	case d.source != nil:
		return d.decodeCoefficients(&out)
	case d.streams:
		return d.decodeSequential(&out)
	}
	return d.decodeMultiScan(&out)
}

// AppendIndex decodes all entropy-coded data of a file, without computing pixels, and appends to dst the index that lets
// Reset's caller decode regions of it faster. A file that is not sequential with a single scan is checked just as well
// and gets no index: dst is returned as it is. On error, which is one of Reset's, dst is returned unchanged.
func (d *Decoder) AppendIndex(dst, data []byte) ([]byte, Config, error) {
	config, err := d.Reset(data, nil)
	if err != nil {
		return dst, config, err
	}
	d.ready = false
	if !d.streams {
		if err := d.decodeScans(); err != nil {
			return dst, config, err
		}
		return dst, config, d.checkComplete()
	}
	out, err := d.appendSequentialIndex(dst)
	if err != nil {
		return dst, config, d.repairWithoutPixels()
	}
	return out, config, nil
}

// Damage says what was wrong with the last image that Decode or AppendIndex has read, and was repaired as libjpeg does: a
// [FormatError], or nil. A region's decoding does not see what it need not read.
func (d *Decoder) Damage() error { return d.damage }

// A FormatError reports data that are no complete JPEG file, or so wrong that libjpeg refuses them. Offset is the position in the file, in bytes, at
// or shortly before which the decoder noticed.
type FormatError struct {
	Offset int
	Msg    string // what was found, and what was expected
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("jpeg: invalid format at byte %d: %s", e.Offset, e.Msg)
}

// An UnsupportedError reports a valid JPEG file of a kind that this package leaves out on purpose: arithmetic coding,
// progressive files that end too early to be shown as they are, lossless and hierarchical processes, 12 bits a sample, and
// sampling factors that libjpeg rejects as well.
type UnsupportedError struct{ Msg string }

func (e *UnsupportedError) Error() string { return "jpeg: unsupported: " + e.Msg }

// A LimitError reports an image with more pixels than [MaxPixels] or a side longer than [MaxSide].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("jpeg: %d×%d pixels are over the limit of %d pixels or %d a side", e.Width, e.Height, MaxPixels, MaxSide)
}

// MaxPixels is where Pillow raises DecompressionBombError: twice Image.MAX_IMAGE_PIXELS.
const MaxPixels = 2 * (1024 * 1024 * 1024 / 4 / 3)

// MaxSide is libjpeg's JPEG_MAX_DIMENSION.
const MaxSide = 65500

func formatError(offset int, format string, args ...any) error {
	return &FormatError{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}
