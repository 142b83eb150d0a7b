// Package jpeg decodes JPEG images (ITU-T T.81) to RGB, with the same bits as Pillow on libjpeg-turbo at its default
// settings. These are the accurate integer IDCT, triangle ("fancy") upsampling for 2:1 horizontally, vertically and
// both, libjpeg's fixed-point colour conversion, and Pillow's conversion of CMYK to RGB.
//
// It decodes Huffman-coded baseline, extended sequential and progressive files of 8 bits per sample with one, three or
// four components, all sampling factors of libjpeg, restart intervals and any number of scans.
//
// A [Decoder] decodes a region, and only the necessary part of the file. With an index of a sequential file
// ([Decoder.AppendIndex]), entropy decoding starts near the region in each row; without one it starts at the scan's
// beginning. The IDCT and all later steps are limited to the region.
//
// A sequential file can also be split into its coefficients and the rest, decoded from the coefficients, and restored
// byte for byte: [Decoder.ReadCoefficients], [Decoder.ResetCoefficients] and [Decoder.AppendFile].
//
// libjpeg repairs some damage with a warning: an invalid code, data that end too early, a restart marker out of order.
// Such files give libjpeg's pixels, including grey areas and garbage, because Pillow gives them, too; [Decoder.Damage]
// reports the damage. Files that Pillow refuses give a [FormatError]. There is one exception: a sequential file that
// only lacks EOI is always accepted, and by Pillow sometimes.
//
// Three things give an [UnsupportedError] on purpose. One is arithmetic coding, where Pillow fails above 64 KiB. One is
// progressive files that end before the last bits of their low coefficients, because each release of libjpeg smooths
// them differently. The last is one kind of damage, the bytes ff ff 00 in a sequential scan.
package jpeg

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Config describes an image without its pixels.
type Config struct {
	Width, Height int
	Components    int  // 1 (greyscale), 3 (YCbCr or RGB) or 4 (CMYK or YCCK)
	Progressive   bool // SOF2: no index, and the whole file is decoded for any region
}

// DecodeConfig reads a file's header up to its frame. The errors are those of [Decoder.Reset].
func DecodeConfig(data []byte) (Config, error) {
	var p parser
	if err := p.open(data, true); err != nil {
		return Config{}, err
	}
	return p.config(), nil
}

// A Decoder decodes one image after another and keeps its buffers between them, so that it allocates nothing after the
// largest one. The zero value is ready and uses the generic kernels. It must not be used by two goroutines at a time.
type Decoder struct {
	parser
	kernels kernels
	ready   bool // Reset succeeded and Decode has not been called
	streams bool // the image is one sequential scan of all components, which can be decoded row by row
	index   []byte
	colors  colorModel // determined by the markers before the first scan
	damage  error

	tables  [2][4]huffmanTable // DC, AC
	singles [1 << lookupBits]uint64
	scan    scanBuffer
	batch   []batchQuad // the coefficients of one batch of MCUs, all zero between batches
	quants  []batchQuad // each component's quantisation steps, for each of four blocks
	blocks  [batchBlocksMax]plannedBlock
	quads   [mcuBlocksMax]QuadPosition
	entries []rowEntries

	source  QuadSource // source of the coefficients, if there is no file
	lent    [mcuBlocksMax]*Quad
	extents [mcuBlocksMax]uint8
	parts   *parts

	grid   grid
	planes planes
	coefs  coefficients
}

// New returns a Decoder with the kernels of a level, which must be one of [kernel.Available].
func New(level kernel.Level) *Decoder {
	return &Decoder{kernels: *byLevel[level]}
}

// Reset begins an image: it reads the header up to the first scan. data is a whole file, and index is what AppendIndex made of it, or
// empty. Both are read, and must not change, until Decode returns. docs/format/jpeg-index.md says which wrong indexes are detected.
//
// Errors are a [FormatError], an [UnsupportedError] or a [LimitError]. The index is not checked here.
func (d *Decoder) Reset(data, index []byte) (Config, error) {
	d.ready = false
	d.coefs.release()
	d.index, d.damage, d.source = index, nil, nil
	if err := d.parser.open(data, false); err != nil {
		return Config{}, err
	}
	if d.kernels.idct == nil {
		d.kernels = generic
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

// Decode writes the RGB pixels of r, which must lie within the image, to dst: pixel (x, y) at (y-r.Min.Y)*stride +
// (x-r.Min.X)*3. Bytes between rows are left alone. It may be called once after Reset.
//
// If an error is returned, dst holds some of the pixels. Damage in the file after the region may go unnoticed.
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

// AppendIndex decodes all entropy-coded data of a file, without computing pixels, and appends to dst an index that
// speeds up the decoding of regions. Files that are not sequential with a single scan are checked too, but get no
// index. Errors are those of Reset. In both cases dst is returned unchanged.
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
		return dst, config, d.decodeRepairing(nil)
	}
	return out, config, nil
}

// Damage returns the damage that Decode or AppendIndex repaired in the last image, as libjpeg does: a [FormatError], or
// nil. Decoding a region finds only damage in the data that it reads.
func (d *Decoder) Damage() error { return d.damage }

// A FormatError reports an incomplete JPEG file, or one that libjpeg refuses. Offset is the position in the file, in
// bytes, where the decoder noticed it or shortly after.
type FormatError struct {
	Offset int
	Msg    string // the data found, and the expected data
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("jpeg: invalid format at byte %d: %s", e.Offset, e.Msg)
}

// An UnsupportedError reports a valid JPEG file of a kind left out on purpose. These are arithmetic coding, progressive files that libjpeg
// would smooth, lossless and hierarchical processes, 12 bits per sample, and sampling factors that libjpeg also rejects.
type UnsupportedError struct{ Msg string }

func (e *UnsupportedError) Error() string { return "jpeg: unsupported: " + e.Msg }

// A LimitError reports an image with more pixels than [MaxPixels] or a side longer than [MaxSide].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("jpeg: %d×%d pixels are over the limit of %d pixels or %d a side", e.Width, e.Height, MaxPixels, MaxSide)
}

// MaxPixels is the limit of Pillow's DecompressionBombError: twice Image.MAX_IMAGE_PIXELS.
const MaxPixels = 2 * (1024 * 1024 * 1024 / 4 / 3)

// MaxSide is libjpeg's JPEG_MAX_DIMENSION.
const MaxSide = 65500

func formatError(offset int, format string, args ...any) error {
	return &FormatError{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}
