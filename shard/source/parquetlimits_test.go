package source

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/format"
)

// TestParquetMetadata goes over structs of Thrift: the header of a page, and what claims more than there is.
func TestParquetMetadata(t *testing.T) {
	good := []byte{0x15, 0, 0x15, 20, 0x15, 10, 0x2c, 0x15, 6, 0, 0} // type 0, 10 bytes unpacked, 5 packed, a data page of 3 values
	if n, err := checkThrift(append(good, 1, 2, 3)); err != nil || n != len(good) {
		t.Errorf("%d, %v", n, err)
	}
	for at := range good {
		if _, err := checkThrift(good[:at]); err == nil {
			t.Errorf("%d of %d bytes of a header pass", at, len(good))
		}
	}
	for _, bad := range [][]byte{
		{0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0},       // a string of 4 GB
		{0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f, 1, 2, 0}, // a list of so many numbers
		{0x1b, 0xff, 0xff, 0x7f, 0x55, 1, 0},          // a map
		bytes.Repeat([]byte{0x1c}, 100),               // structs in structs
		{0x1d, 0},                                     // a type that does not exist
	} {
		if _, err := checkThrift(bad); err == nil {
			t.Errorf("% x passes", bad)
		}
	}
}

// TestParquetClaims reads columns with pages that claim too much.
func TestParquetClaims(t *testing.T) {
	for _, c := range []struct {
		packed, unpacked, values int
		want                     string
	}{
		{9, 100, 10, ""},
		{9, 9, 1 << 30, "it has 9 bytes, unpacked 9 with 1073741824 values, which is too many"},
		{9, 1 << 30, 1, "it has 9 bytes, unpacked 1073741824 with 1 values, which is too many"},
		{10, 10, 1, "it has 10 bytes"},
		{-1, 10, 1, "it has -1 bytes"},
	} {
		page := []byte("PAR1")
		number := func(head byte, n int) { page = binary.AppendVarint(append(page, head), int64(n)) }
		number(0x15, int(format.DataPage))
		number(0x15, c.unpacked)
		number(0x15, c.packed)
		page = append(page, 0x2c) // the header of a data page, field 5
		number(0x15, c.values)
		number(0x15, int(format.Plain))
		number(0x15, int(format.RLE))
		number(0x15, int(format.RLE))
		page = append(page, make([]byte, 2+9)...) // the ends of both headers, and the page
		err := checkParquetChunk(bytes.NewReader(page), int64(len(page)), &format.ColumnMetaData{DataPageOffset: 4, TotalCompressedSize: int64(len(page) - 4)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "the page at byte 4 says that "+c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
