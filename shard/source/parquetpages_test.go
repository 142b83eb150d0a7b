package source

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// onePage is a column of one data page of version 1, with what its header says, and its bytes; they lie behind four others.
func onePage(unpacked, values int, encoding format.Encoding, packed []byte) []byte {
	b := []byte("PAR1")
	number := func(head byte, n int) { b = binary.AppendVarint(append(b, head), int64(n)) }
	number(0x15, int(format.DataPage))
	number(0x15, unpacked)
	number(0x15, len(packed))
	b = append(b, 0x2c) // the header of a data page, field 5
	number(0x15, values)
	number(0x15, int(encoding))
	number(0x15, int(format.RLE))
	number(0x15, int(format.RLE))
	return append(append(b, 0, 0), packed...)
}

func checkOnePage(file []byte, codec format.CompressionCodec, values parquetValues) error {
	u := parquetUnpacker{file: bytes.NewReader(file), size: int64(len(file)), codec: codec, values: values, buffers: new(parquetBuffers)}
	defer u.buffers.close()
	return u.chunk(&format.ColumnMetaData{DataPageOffset: 4, TotalCompressedSize: int64(len(file) - 4)})
}

// packedZeros are n zeros by each codec. Zstandard's are in two frames, of which the first holds one.
func packedZeros(t *testing.T, n int) map[format.CompressionCodec][]byte {
	t.Helper()
	zeros := make([]byte, n)
	var zip, br bytes.Buffer
	z, b := gzip.NewWriter(&zip), brotli.NewWriter(&br)
	_, err1 := z.Write(zeros)
	_, err2 := b.Write(zeros)
	frames, err3 := zstd.NewWriter(nil)
	if err := errors.Join(err1, err2, err3, z.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	return map[format.CompressionCodec][]byte{
		format.Gzip: zip.Bytes(), format.Brotli: br.Bytes(), format.Zstd: frames.EncodeAll(zeros[1:], frames.EncodeAll(zeros[:1], nil)),
		format.Snappy: snappy.Encode(nil, zeros),
	}
}

// TestParquetPagesThatUnpackToMore are refused, in memory of what they say. Zeros are packed a thousandfold or more, by Snappy twentyfold.
func TestParquetPagesThatUnpackToMore(t *testing.T) {
	const size = 32 << 20
	refuse := func(name string, codec format.CompressionCodec, packed []byte) {
		t.Helper()
		before := allocated()
		err := checkOnePage(onePage(100, 1, format.Plain, packed), codec, parquetValues{})
		if n := allocated() - before; n > 20<<20 { // brotli's window
			t.Errorf("%s: %d bytes are allocated for a page of %d", name, n, len(packed))
		}
		if !errors.Is(err, errUnpacks) || !strings.Contains(err.Error(), "the page at byte 4 says that it has 100 bytes unpacked") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for codec, packed := range packedZeros(t, size) {
		refuse(codec.String(), codec, packed)
	}
	for codec, packed := range packedZeros(t, 100) {
		if err := checkOnePage(onePage(100, 1, format.Plain, packed), codec, parquetValues{}); err != nil {
			t.Errorf("%v: %v", codec, err)
		}
	}
	if err := checkOnePage(onePage(100, 1, format.Plain, []byte{0xff}), format.Lz4Raw, parquetValues{}); err != errLZ4 {
		t.Errorf("LZ4: %v", err)
	}
	frames := packedZeros(t, 100)[format.Zstd]
	refuse("a second frame that says 256 MiB", format.Zstd, append(slices.Clone(frames[:len(frames)/2]), 0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x10, 1, 0, 0))
}

// TestParquetValuesThatAreMore than a page says are refused before room is made for them.
func TestParquetValuesThatAreMore(t *testing.T) {
	lengths := func(n ...int32) []byte {
		b, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const many = "\xfe\xff\xff\xff\x0f" // 2³¹-1 times
	shared := lengths(append([]int32{0}, slices.Repeat([]int32{1 << 20}, 999)...)...)
	none := lengths(make([]int32, 1000)...)
	optional := parquetValues{definition: 1, bits: 64}
	for _, c := range []struct {
		name     string
		encoding format.Encoding
		values   parquetValues
		data     string
		want     error
	}{
		{"levels", format.Plain, optional, "\x06\x00\x00\x00" + many + "\x01", errManyValues},
		{"levels without end", format.Plain, optional, "\xff\xff\xff\xff", errManyValues},
		{"levels, whole", format.Plain, optional, "\x03\x00\x00\x00\xd0\x0f\x01", nil},
		{"indices", format.RLEDictionary, parquetValues{}, "\x01" + many + "\x01" + many + "\x01", errManyValues},
		{"indices in groups", plainDictionary, parquetValues{}, "\x00\xff\xff\xff\xff\x0f", errManyValues},
		{"indices, whole", format.RLEDictionary, parquetValues{}, "\x01\xd0\x0f\x01", nil},
		{"booleans", format.RLE, parquetValues{}, "\x06\x00\x00\x00" + many + "\x01", errManyValues},
		{"differences", format.DeltaBinaryPacked, optional, "\x80\x01\x04\xff\xff\xff\xff\x07\x00", errManyValues},
		{"wide differences", format.DeltaBinaryPacked, optional, "\x80\x01\x04\xe8\x07\x00\x00\x41\x00\x00\x00", errManyValues},
		{"differences, whole", format.DeltaBinaryPacked, optional, "", nil},
		{"lengths", format.DeltaLengthByteArray, parquetValues{}, "\x80\x01\x04\xff\xff\xff\xff\x07\x00", errManyValues},
		{"shared beginnings", format.DeltaByteArray, parquetValues{}, string(shared) + string(none), errShared},
		{"rests", format.DeltaByteArray, parquetValues{}, string(none) + "\x80\x01\x04\xff\xff\xff\xff\x07\x00", errManyValues},
		{"shared beginnings, whole", format.DeltaByteArray, parquetValues{}, string(none) + string(none), nil},
	} {
		data := []byte(c.data)
		if c.encoding == format.DeltaBinaryPacked && c.data == "" {
			data = none
		}
		if c.values.definition > 0 && c.encoding == format.DeltaBinaryPacked {
			data = append([]byte("\x03\x00\x00\x00\xd0\x0f\x01"), data...)
		}
		before := allocated()
		err := checkOnePage(onePage(len(data), 1000, c.encoding, data), format.Uncompressed, c.values)
		if n := allocated() - before; n > 1<<20 {
			t.Errorf("%s: %d bytes are allocated for a page of %d", c.name, n, len(data))
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if err := checkOnePage(onePage(9, 1<<30, format.Plain, make([]byte, 9)), format.Uncompressed, optional); err == nil || !strings.Contains(err.Error(), "1073741824 values") {
		t.Errorf("values: %v", err)
	}
}

// TestParquetHeadersOfTwoReadings has a header say a thing twice, or in the headers of two kinds of page: two readers might go by another each.
func TestParquetHeadersOfTwoReadings(t *testing.T) {
	twice := []byte{0x15, 0, 0x15, 20, 0x15, 10, 0x05, 4, 200, 0}
	if _, err := readParquetPage(twice); err == nil {
		t.Error("a header that says twice how long the page is passes")
	}
	both := []byte{0x15, 0, 0x15, 20, 0x15, 10, 0x2c, 0x15, 200, 1, 0, 0x3c, 0x15, 2, 0x45, 8, 0x15, 8, 0x12, 0, 0}
	p, err := readParquetPage(both)
	if want := (parquetPage{unpacked: 10, packed: 5, values: 100, header: len(both)}); err != nil || p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
}
