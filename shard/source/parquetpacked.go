package source

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// The reader of parquet unpacks a page to whatever length its bytes have, and looks at the page's own only then: some kilobytes may be gigabytes
// of zeros. A page is therefore unpacked here first, into no more than it says.

// parquetUnpacker looks at the pages of a column.
type parquetUnpacker struct {
	file    io.ReaderAt
	size    int64
	codec   format.CompressionCodec
	values  parquetValues
	buffers *parquetBuffers
}

// parquetBuffers are as large as the largest page that was unpacked into them.
type parquetBuffers struct {
	packed, unpacked []byte
	zstd             *zstd.Decoder
}

func (b *parquetBuffers) close() {
	if b.zstd != nil {
		b.zstd.Close()
	}
}

// errUnpacks is returned for a page whose bytes unpack to more than it says.
var errUnpacks = errors.New("what is packed in it unpacks to more")

// errLZ4 is returned for what parquet-go 0.32 reads as zeros where it is packed to more than a third (https://github.com/parquet-go/parquet-go/issues/608);
// and of a damaged page it asks for twice as much memory for ever.
var errLZ4 = errors.New("it is packed by LZ4, which is not read: write the file again with another compression, such as Zstandard")

// check looks at a page whose bytes begin at an offset of the file.
func (u *parquetUnpacker) check(at int64, p parquetPage) error {
	b := u.buffers
	b.packed = sized(b.packed, p.packed)
	if n, err := u.file.ReadAt(b.packed, at); n < len(b.packed) {
		return err
	}
	levels, data := b.packed[:0], b.packed
	if format.PageType(p.kind) == format.DataPageV2 {
		n := p.repetitions + p.definitions
		if p.repetitions < 0 || p.definitions < 0 || n < 0 || n > p.packed {
			return errManyValues
		}
		levels, data = data[:n], data[n:]
	}
	if !p.plain {
		var err error
		if data, err = u.unpack(data, p.unpacked); err != nil {
			return err
		}
	}
	return u.values.check(p, levels, data)
}

// unpack returns what is packed, which is no more than size bytes.
func (u *parquetUnpacker) unpack(packed []byte, size int64) ([]byte, error) {
	b := u.buffers
	switch u.codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(packed)
		switch {
		case err != nil:
			return nil, err
		case int64(n) > size:
			return nil, errUnpacks
		}
		b.unpacked = sized(b.unpacked, size)
		return snappy.Decode(b.unpacked, packed)
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		return b.readAll(r, size)
	case format.Brotli:
		return b.readAll(brotli.NewReader(bytes.NewReader(packed)), size)
	case format.Zstd:
		if b.zstd == nil {
			var err error
			if b.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
				return nil, err
			}
		}
		b.unpacked = sized(b.unpacked, size)
		data, err := b.zstd.DecodeAll(packed, b.unpacked[:0:size])
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			err = errUnpacks
		}
		return data, err
	case format.Lz4Raw, format.Lz4:
		return nil, errLZ4
	}
	return packed, nil // as it is, or of a kind that the reader refuses
}

func (b *parquetBuffers) readAll(r io.Reader, size int64) ([]byte, error) {
	b.unpacked = sized(b.unpacked, size+1)
	n, err := io.ReadFull(r, b.unpacked)
	switch {
	case err == nil:
		return nil, errUnpacks
	case err != io.EOF && err != io.ErrUnexpectedEOF: // the last says that there was less, or that it is cut short, which the reader tells
		return nil, err
	}
	return b.unpacked[:n], nil
}

// sized returns a buffer of n bytes, of any content.
func sized(buf []byte, n int64) []byte {
	if int64(cap(buf)) < n {
		return make([]byte, n)
	}
	return buf[:n]
}
