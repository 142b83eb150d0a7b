package pixelcodec

import (
	"encoding/binary"
	"fmt"
	"image"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// bandedCodec compresses the residuals of each band with a general compressor. A band is the compressed length, u32,
// and as many bytes. A band that would not become smaller is stored uncompressed, which its length shows.
type bandedCodec struct {
	base
	compress blockCompressor
	window   window
	band     []byte // the residuals of one band
	packed   []byte // copy of a band's bytes, because another process may change the file, and decompressors trust their input
	pending  []byte // residuals of band still to be decoded
	enc      pairEncoder
}

// A blockCompressor is a compressor that works on whole blocks of known size.
type blockCompressor interface {
	// append appends the compressed src to dst, or nothing if that would not be smaller.
	append(dst, src []byte) ([]byte, error)
	// expand fills dst exactly from src, or fails.
	expand(dst, src []byte) error
}

const bandLengthBytes = 4

func newBanded(b base) *bandedCodec {
	c := &bandedCodec{base: b, compress: new(lz4Compressor)}
	if b.params.Codec == Zstd {
		c.compress = &zstdCompressor{level: zstd.EncoderLevel(b.params.Level)}
	}
	c.decoder = c
	return c
}

func (c *bandedCodec) Encode(dst, rgb []byte, stride, w, h int) ([]byte, error) {
	if err := checkSource(rgb, stride, w, h); err != nil {
		return nil, err
	}
	head := header{width: w, height: h, bandLog: c.params.bandLog(), codec: c.id}
	c.enc.begin(&c.kernels, rgb, stride, head)
	start := len(dst)
	dst = head.append(dst)
	offsets := len(dst)
	dst = append(slices.Grow(dst, offsetBytes*head.bands()), make([]byte, offsetBytes*head.bands())...)
	for band := range head.bands() {
		binary.LittleEndian.PutUint32(dst[offsets+offsetBytes*band:], uint32(len(dst)-start))
		bandRows := 1 << head.bandLog
		c.band = c.band[:0]
		for y := band * bandRows; y < min(h, (band+1)*bandRows); y += 2 {
			c.band = append(c.band, c.enc.pair(y, y == band*bandRows)...)
		}
		length := len(dst)
		dst = append(dst, make([]byte, bandLengthBytes)...)
		var err error
		if dst, err = c.compress.append(dst, c.band); err != nil {
			return nil, fmt.Errorf("pixels: %s: %w", c.params.Codec, err)
		}
		if len(dst) == length+bandLengthBytes {
			dst = append(dst, c.band...)
		}
		binary.LittleEndian.PutUint32(dst[length:], uint32(len(dst)-length-bandLengthBytes))
	}
	return dst, nil
}

func (c *bandedCodec) decode(t target, blob []byte, h header, r image.Rectangle) error {
	c.window.begin(blob, h, r)
	return decodeRows(&c.window, &c.base, c, &t, r)
}

// seek expands a whole band.
func (c *bandedCodec) seek(band int) error {
	w := &c.window
	start, err := w.bandStart(band)
	if err != nil {
		return err
	}
	if start+bandLengthBytes > len(w.blob) {
		return &FormatError{Offset: start, Msg: "a band's length is cut short"}
	}
	length := int64(binary.LittleEndian.Uint32(w.blob[start:]))
	body := w.blob[start+bandLengthBytes:]
	rows := min(w.head.height-band<<w.head.bandLog, 1<<w.head.bandLog)
	size := (rows + 1) / 2 * w.chunks * chunkResiduals
	if length > int64(len(body)) || length > int64(size) {
		return &FormatError{Offset: start, Msg: "a band's length is out of range"}
	}
	body = body[:length]
	if len(body) == size {
		c.pending = body
		return nil
	}
	c.band = slices.Grow(c.band[:0], size)[:size]
	c.packed = append(c.packed[:0], body...)
	body = c.packed
	if err := c.compress.expand(c.band, body); err != nil {
		return &FormatError{Offset: start, Msg: c.params.Codec + ": " + err.Error()}
	}
	c.pending = c.band
	return nil
}

func (c *bandedCodec) next(first bool) error {
	w := &c.window
	c.fetch()
	pair := c.pending[w.firstChunk*chunkResiduals : w.lastChunk*chunkResiduals]
	c.pending = c.pending[w.chunks*chunkResiduals:]
	c.kernels.predict(pair, &w.rows, w.lastChunk-w.firstChunk, first)
	return nil
}

// zstdCompressor makes Zstandard frames (RFC 8878) without checksums.
type zstdCompressor struct {
	level   zstd.EncoderLevel
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func (z *zstdCompressor) append(dst, src []byte) ([]byte, error) {
	if z.encoder == nil {
		var err error
		z.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(z.level),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			return nil, err
		}
	}
	start := len(dst)
	if dst = z.encoder.EncodeAll(src, dst); len(dst)-start >= len(src) {
		dst = dst[:start]
	}
	return dst, nil
}

func (z *zstdCompressor) expand(dst, src []byte) error {
	if z.decoder == nil {
		var err error
		z.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	got, err := z.decoder.DecodeAll(src, dst[:0:len(dst)])
	if err == nil && len(got) != len(dst) {
		err = errShort
	}
	return err
}

// lz4Compressor makes LZ4 blocks, without the frame around them.
type lz4Compressor struct {
	compressor lz4.Compressor
	scratch    []byte
}

func (l *lz4Compressor) append(dst, src []byte) ([]byte, error) {
	l.scratch = slices.Grow(l.scratch[:0], lz4.CompressBlockBound(len(src)))
	n, err := l.compressor.CompressBlock(src, l.scratch[:cap(l.scratch)])
	if err != nil || n >= len(src) {
		return dst, err
	}
	return append(dst, l.scratch[:n]...), nil
}

func (l *lz4Compressor) expand(dst, src []byte) error {
	n, err := lz4.UncompressBlock(src, dst)
	if err == nil && n != len(dst) {
		err = errShort
	}
	return err
}

var errShort = fmt.Errorf("fewer bytes than the band has")
