// Package pixelcodec stores images as pixels, without loss, so that any rectangle of them can be read at the speed of
// memory. The encoding "pixels" of sets uses it. docs/format/pixels.md specifies every bit.
//
// A blob is one image:
//
//	+-------+--------+------+-------+---------+-----------------+--------+--------+ ...
//	| width | height | band | codec | 0     0 | band offsets    | band 0 | band 1 | ...
//	| u16   | u16    | u8   | u8    | u8   u8 | u32 for each    |        |        | ...
//	+-------+--------+------+-------+---------+-----------------+--------+--------+ ...
//
// Four codecs fill the bands. All except the last store the same residuals: the image as planes G, R−G and B−G, each
// pixel minus the one above it.
//
//	bitpack   groups of 8 by 2 residuals as bit planes, as many as the group needs (the default).
//	zstd      the residuals of a band as one Zstandard frame.
//	lz4       the residuals of a band as one LZ4 block.
//	none      the raw pixels, interleaved; no bands.
//
// A blob has no checksum, because its container has one. For any bytes of a blob, decoding reads and writes only within
// the given slices. It yields the pixels, wrong pixels, or a [*FormatError].
package pixelcodec

import (
	"encoding/binary"
	"fmt"
	"image"
	"slices"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Names of the codecs in flags and manifests.
const (
	Bitpack = "bitpack"
	Zstd    = "zstd"
	LZ4     = "lz4"
	None    = "none"
)

// Names returns every codec's name, the default first. The header of a blob has a codec's number in this list, from 1.
func Names() []string { return []string{Bitpack, Zstd, LZ4, None} }

// MaxDimension is the largest width or height of a blob.
const MaxDimension = 16384

// SlackBytes is the number of readable bytes that should follow a blob. A blob with fewer is decoded from a copy.
const SlackBytes = 64

const (
	headerBytes = 8
	offsetBytes = 4
)

// A Codec writes and reads blobs of one kind. It keeps scratch memory from call to call, so it allocates nothing after
// its largest image, and each goroutine needs its own.
type Codec interface {
	// Params returns the codec's settings for [New], which a set's manifest stores.
	Params() Params

	// Encode appends the blob of a w×h image to dst and returns the extended slice. Row y of the image is the 3·w bytes R, G, B, R, … at
	// rgb[y·stride]. It returns a *LimitError if a dimension is over MaxDimension, and an error if rgb is too short.
	Encode(dst, rgb []byte, stride, w, h int) ([]byte, error)

	// Decode writes the pixels of r, a rectangle of the image in blob, as rows of R, G, B: row y of r at
	// dst[y·stride]. It writes no other byte of dst. A malformed blob gives a *FormatError.
	Decode(dst []byte, stride int, blob []byte, r image.Rectangle) error

	// DecodeTo writes the pixels of r into out, which has r's size, with out's layout and flip.
	DecodeTo(out resample.Output, blob []byte, r image.Rectangle) error

	// Prefetch sets the next blob: the following Decode or DecodeTo also fetches it into the processor's cache. This is
	// a hint: the blob is not read.
	Prefetch(next []byte)

	// NonTemporal lets later calls of DecodeTo bypass the processor's caches, because the result will not be read soon.
	// This is a hint, too.
	NonTemporal(on bool)
}

// New returns the codec of p, with kernels of a level, which must be one of [kernel.Available].
func New(p Params, level kernel.Level) (Codec, error) {
	p, err := p.normalise()
	if err != nil {
		return nil, err
	}
	base := base{params: p, kernels: *byLevel[level], id: 1 + slices.Index(Names(), p.Codec)}
	switch p.Codec {
	case Bitpack:
		return newBitpack(base), nil
	case Zstd, LZ4:
		return newBanded(base), nil
	case None:
		c := &rawCodec{base: base}
		c.decoder = c
		return c, nil
	}
	return nil, fmt.Errorf("pixels: unknown codec %q, want one of %v", p.Codec, Names())
}

// Config is the content of a blob's header.
type Config struct {
	Width, Height int
	Codec         string
	BandRows      int // rows of a band, a power of two
}

// DecodeConfig reads the header of any codec's blob.
func DecodeConfig(blob []byte) (Config, error) {
	h, err := readHeader(blob)
	if err != nil {
		return Config{}, err
	}
	return Config{Width: h.width, Height: h.height, Codec: Names()[h.codec-1], BandRows: 1 << h.bandLog}, nil
}

// header is a blob's first eight bytes.
type header struct {
	width, height int
	bandLog       int
	codec         int
}

func readHeader(blob []byte) (header, error) {
	if len(blob) < headerBytes {
		return header{}, &FormatError{Offset: len(blob), Msg: "the header is cut short"}
	}
	h := header{
		width:   int(binary.LittleEndian.Uint16(blob)),
		height:  int(binary.LittleEndian.Uint16(blob[2:])),
		bandLog: int(blob[4]),
		codec:   int(blob[5]),
	}
	switch {
	case h.width == 0 || h.width > MaxDimension:
		return header{}, &FormatError{Offset: 0, Msg: "the width is out of range"}
	case h.height == 0 || h.height > MaxDimension:
		return header{}, &FormatError{Offset: 2, Msg: "the height is out of range"}
	case h.bandLog < minBandLog || h.bandLog > maxBandLog:
		return header{}, &FormatError{Offset: 4, Msg: "the height of a band is out of range"}
	case h.codec < 1 || h.codec > len(Names()):
		return header{}, &FormatError{Offset: 5, Msg: "unknown codec"}
	case blob[6] != 0 || blob[7] != 0:
		return header{}, &FormatError{Offset: 6, Msg: "a reserved byte is not zero"}
	}
	return h, nil
}

func (h header) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.width))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.height))
	return append(dst, byte(h.bandLog), byte(h.codec), 0, 0)
}

func (h header) bands() int { return (h.height + 1<<h.bandLog - 1) >> h.bandLog }

// chunks returns the number of chunks of 32 columns in a row.
func (h header) chunks() int { return (h.width + chunkColumns - 1) / chunkColumns }

// A FormatError reports a malformed blob.
type FormatError struct {
	Offset int // byte offset in the blob where the error was noticed
	Msg    string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("pixels: malformed at byte %d: %s", e.Offset, e.Msg)
}

// A LimitError reports an image too large for a blob.
type LimitError struct {
	Width, Height int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("pixels: an image of %d×%d is over the limit of %d in one dimension; store it resized",
		e.Width, e.Height, MaxDimension)
}

// base is the common part of all codecs.
type base struct {
	params      Params
	kernels     kernels
	id          int     // codec number in headers
	decoder     decoder // the codec itself
	padded      []byte  // copy of a blob without slack
	nonTemporal bool    // outputs may bypass the caches
	prefetcher
}

// A decoder writes the pixels of a rectangle of a blob, whose header is h, to t.
type decoder interface {
	decode(t target, blob []byte, h header, r image.Rectangle) error
}

func (b *base) Decode(dst []byte, stride int, blob []byte, r image.Rectangle) error {
	h, err := b.open(blob, r)
	if err != nil {
		return err
	}
	t, err := rowsTarget(dst, stride, r)
	if err != nil {
		return err
	}
	return b.decoder.decode(t, blob, h, r)
}

func (b *base) DecodeTo(out resample.Output, blob []byte, r image.Rectangle) error {
	h, err := b.open(blob, r)
	if err != nil {
		return err
	}
	t, err := outputTarget(out, r, b.nonTemporal)
	if err != nil {
		return err
	}
	return b.decoder.decode(t, blob, h, r)
}

func (b *base) Params() Params      { return b.params }
func (b *base) NonTemporal(on bool) { b.nonTemporal = on }

// withSlack returns blob with SlackBytes of capacity behind it.
func (b *base) withSlack(blob []byte) []byte {
	if cap(blob)-len(blob) >= SlackBytes {
		return blob
	}
	b.padded = append(slices.Grow(b.padded[:0], len(blob)+SlackBytes), blob...)
	return b.padded
}

// open reads the header of a blob, and checks its codec and r.
func (b *base) open(blob []byte, r image.Rectangle) (header, error) {
	h, err := readHeader(blob)
	if err != nil {
		return h, err
	}
	if h.codec != b.id {
		return h, &FormatError{Offset: 5, Msg: "stored by codec " + Names()[h.codec-1] + ", not " + b.params.Codec}
	}
	if r.Empty() || !r.In(image.Rect(0, 0, h.width, h.height)) {
		return h, fmt.Errorf("pixels: rectangle %v is empty or outside the %d×%d image", r, h.width, h.height)
	}
	return h, nil
}

// checkSource returns an error unless rgb holds a w×h image with the given stride, of a valid size.
func checkSource(rgb []byte, stride, w, h int) error {
	if w < 1 || h < 1 {
		return fmt.Errorf("pixels: an image of %d×%d has no pixels", w, h)
	}
	if w > MaxDimension || h > MaxDimension {
		return &LimitError{Width: w, Height: h}
	}
	if stride < 3*w || len(rgb) < (h-1)*stride+3*w {
		return fmt.Errorf("pixels: %d bytes with a stride of %d do not hold a %d×%d image", len(rgb), stride, w, h)
	}
	return nil
}
