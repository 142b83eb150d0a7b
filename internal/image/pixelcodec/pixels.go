// Package pixelcodec stores images as pixels, without loss, so that any rectangle of one can be had back at the speed of
// memory. It is what the encoding "pixels" of a set is made of; docs/format/pixels.md says what every bit means.
//
// A blob is one image:
//
//	+-------+--------+------+-------+---------+-----------------+--------+--------+ ... +
//	| width | height | band | codec | 0     0 | band offsets    | band 0 | band 1 |     |
//	| u16   | u16    | u8   | u8    | u8   u8 | u32 for each    |        |        |     |
//	+-------+--------+------+-------+---------+-----------------+--------+--------+ ... +
//
// Four codecs fill the bands. All but the last store the same residuals: the image as planes G, R−G and B−G, each pixel
// less the one above it.
//
//	bitpack   groups of 8 by 2 residuals as bit planes, as many as the group needs (the default)
//	zstd      the residuals of a band as one Zstandard frame
//	lz4       the residuals of a band as one LZ4 block
//	none      the pixels as they are, interleaved; no bands
//
// A blob carries no checksum: its container's does that work. Whatever the bytes of a blob, decoding it reads and writes
// nothing outside the slices it was given; it yields the pixels, wrong ones, or a [*FormatError].
package pixelcodec

import (
	"encoding/binary"
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Names of the codecs, as flags and manifests have them.
const (
	Bitpack = "bitpack"
	Zstd    = "zstd"
	LZ4     = "lz4"
	None    = "none"
)

// Names returns every codec's name, the default first.
func Names() []string { return []string{Bitpack, Zstd, LZ4, None} }

// MaxDimension is the largest width or height that can be stored.
const MaxDimension = 16384

// SlackBytes is how many readable bytes a blob's capacity should hold behind its length. A blob with fewer is decoded
// all the same, from a copy.
const SlackBytes = 64

const (
	headerBytes = 8
	offsetBytes = 4
)

// Codec numbers, as a blob's header has them.
const (
	idBitpack = 1
	idZstd    = 2
	idLZ4     = 3
	idNone    = 4
)

// A Codec writes and reads blobs of one kind. It keeps scratch memory from call to call, so that it allocates nothing
// once it has seen its largest image, and so that each goroutine needs its own.
type Codec interface {
	// Params returns what [New] needs to make this codec again: what a set's manifest keeps.
	Params() Params

	// Encode appends the blob of a w×h image to dst and returns the extended slice. Row y of the image is the 3·w
	// bytes R, G, B, R, … at rgb[y·stride]. It returns a *LimitError if a dimension is over MaxDimension, and an
	// error if rgb is too short.
	Encode(dst, rgb []byte, stride, w, h int) ([]byte, error)

	// Decode writes the pixels of r, a rectangle of the image in blob, as rows of R, G, B: row y of r at
	// dst[y·stride]. It writes no other byte of dst. A blob that is malformed gives a *FormatError.
	Decode(dst []byte, stride int, blob []byte, r image.Rectangle) error

	// DecodeTo writes the pixels of r into out, whose size is r's, in out's layout and flipped if out says so.
	DecodeTo(out resample.Output, blob []byte, r image.Rectangle) error

	// Prefetch names the blob that will be wanted after the next Decode or DecodeTo, which fetches it into the processor's
	// cache on the way. It is a hint: nothing of it is read.
	Prefetch(next []byte)

	// NonTemporal says whether what DecodeTo writes from now on will not be read soon, and so may go past the processor's
	// caches. It is a hint too.
	NonTemporal(on bool)
}

// New returns the codec that p names, with kernels of the given level or the highest below it that is compiled in. The
// level must be one that this processor can run.
func New(p Params, level kernel.Level) (Codec, error) {
	p, err := p.normalise()
	if err != nil {
		return nil, err
	}
	base := base{params: p, kernels: kernelsFor(level)}
	switch p.Codec {
	case Bitpack:
		return newBitpack(base), nil
	case Zstd, LZ4:
		return newBanded(base)
	case None:
		return &rawCodec{base: base}, nil
	}
	return nil, fmt.Errorf("pixels: unknown codec %q, want one of %v", p.Codec, Names())
}

// Config is what a blob's header says.
type Config struct {
	Width, Height int
	Codec         string
	BandRows      int // rows that decode on their own; a power of two
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
	case h.codec < idBitpack || h.codec > idNone:
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

// bands returns how many bands the image has.
func (h header) bands() int { return (h.height + 1<<h.bandLog - 1) >> h.bandLog }

// chunks returns how many chunks of 32 columns a row has.
func (h header) chunks() int { return (h.width + chunkColumns - 1) / chunkColumns }

// A FormatError says that a blob is malformed.
type FormatError struct {
	Offset int // in bytes from the blob's start, where it was noticed
	Msg    string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("pixels: malformed at byte %d: %s", e.Offset, e.Msg)
}

// A LimitError says that an image is too large to be stored.
type LimitError struct {
	Width, Height int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("pixels: an image of %d×%d is over the limit of %d in one dimension; store it resized",
		e.Width, e.Height, MaxDimension)
}

// base is what every codec has.
type base struct {
	params      Params
	kernels     kernels
	padded      []byte // a copy of a blob that came without slack
	nonTemporal bool   // outputs may go past the caches
	prefetcher
}

// Params returns what New made the codec from, with the defaults filled in.
func (b *base) Params() Params { return b.params }

// NonTemporal says whether outputs may be written past the caches.
func (b *base) NonTemporal(on bool) { b.nonTemporal = on }

// withSlack returns blob with SlackBytes of capacity behind it.
func (b *base) withSlack(blob []byte) []byte {
	if cap(blob)-len(blob) >= SlackBytes {
		return blob
	}
	if need := len(blob) + SlackBytes; cap(b.padded) < need {
		b.padded = make([]byte, need+need/4)
	}
	return b.padded[:copy(b.padded[:cap(b.padded)], blob)]
}

// open reads the header of a blob that must be of the given codec, and checks r against it.
func open(blob []byte, codec int, r image.Rectangle) (header, error) {
	h, err := readHeader(blob)
	if err != nil {
		return h, err
	}
	if h.codec != codec {
		return h, &FormatError{Offset: 5, Msg: "stored by codec " + Names()[h.codec-1] + ", not " + Names()[codec-1]}
	}
	if r.Empty() || !r.In(image.Rect(0, 0, h.width, h.height)) {
		return h, fmt.Errorf("pixels: rectangle %v is empty or outside the %d×%d image", r, h.width, h.height)
	}
	return h, nil
}

// checkSource reports whether rgb holds a w×h image with the given stride, of a size that can be stored.
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
