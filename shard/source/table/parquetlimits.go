package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// parquet-go allocates as much memory as a file claims to need. The sizes in the footer and in the headers of pages are therefore checked
// first: a file of a few bytes must not take gigabytes. The packed data are not checked: a page that unpacks to more than it claims costs
// that much memory.

const (
	// parquetFooterBytesMax bounds a file's metadata, which are held in memory.
	parquetFooterBytesMax = 64 << 20
	// parquetPageBytesMax bounds an unpacked page. Beyond parquetPageBytesFree, parquetRatioMax bounds its ratio to the packed size.
	parquetPageBytesMax  = 1 << 30
	parquetPageBytesFree = 8 << 20
	parquetRatioMax      = 1000
	// parquetPageValuesFree bounds the values of a page, plus parquetRatioMax for each byte. Writers end pages after some ten thousand.
	parquetPageValuesFree = 1 << 20
	// parquetHeaderBytesMax bounds the header of a page, which may hold a smallest and a largest value.
	parquetHeaderBytesMax = 1 << 20
	compactDepthMax       = 32
)

var (
	errCompact = errors.New("its metadata are damaged")
	// errLZ4 refuses LZ4: parquet-go 0.32 reads pages as zeros if they were packed to more than a third
	// (https://github.com/parquet-go/parquet-go/issues/608). For a damaged page it allocates ever more memory.
	errLZ4 = errors.New("it is packed by LZ4, which is not read: write the file again with another compression, such as Zstandard")
)

// checkParquetFooter reads the end of a file, which tells the length of the metadata before it:
//
//	… | metadata | their length, 4 bytes | "PAR1"
func checkParquetFooter(file io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("%d bytes are no parquet file", size)
	}
	if _, err := file.ReadAt(end[:], size-8); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case string(end[4:]) != "PAR1":
		return fmt.Errorf("does not end as parquet files do: the download is incomplete, or it is a pointer of Git LFS (git lfs pull)")
	case length > size-12 || length > parquetFooterBytesMax:
		return fmt.Errorf("says that its metadata have %d bytes, of %d in the file: it is damaged", length, size)
	}
	metadata := make([]byte, length)
	if _, err := file.ReadAt(metadata, size-8-length); err != nil {
		return err
	}
	if _, ok := compactStruct(metadata); !ok {
		return errCompact
	}
	return nil
}

// checkGroup checks the claims of a row group about the columns to read.
func (f *parquetFile) checkGroup(i int) error {
	columns := slices.DeleteFunc([]int{f.image, f.label, f.imagePath}, func(column int) bool { return column < 0 })
	for _, c := range f.fields {
		columns = append(columns, c.leaf)
	}
	first, chunks := f.Metadata().RowGroups[0].Columns, f.Metadata().RowGroups[i].Columns
	for _, column := range columns {
		if column >= len(chunks) || column >= len(first) {
			return errCompact
		}
		// parquet-go takes the compression of a column from the first group, for all groups.
		switch first[column].MetaData.Codec {
		case format.Lz4Raw, format.Lz4:
			return errLZ4
		}
		if err := checkParquetChunk(f.file, f.Size(), &chunks[column].MetaData); err != nil {
			return err
		}
	}
	return nil
}

// checkParquetChunk checks where a column of a row group lies, and the headers of its pages.
func checkParquetChunk(file io.ReaderAt, size int64, chunk *format.ColumnMetaData) error {
	at := chunk.DataPageOffset
	if chunk.DictionaryPageOffset > 0 {
		at = chunk.DictionaryPageOffset
	}
	if at < 4 || at > size || chunk.TotalCompressedSize < 0 || chunk.TotalCompressedSize > size-at {
		return fmt.Errorf("a column says that its %d bytes begin at byte %d of %d", chunk.TotalCompressedSize, at, size)
	}
	for end := at + chunk.TotalCompressedSize; at < end; {
		header, length, err := readPageHeader(file, at, end)
		if err != nil {
			return fmt.Errorf("the page at byte %d: %w", at, err)
		}
		packed, unpacked, values := int64(header.CompressedPageSize), int64(header.UncompressedPageSize), pageValues(header)
		switch {
		case packed < 0 || packed > end-at-length:
			return fmt.Errorf("the page at byte %d says that it has %d bytes, more than its column", at, packed)
		case unpacked < 0 || unpacked > parquetPageBytesMax || unpacked > parquetPageBytesFree+parquetRatioMax*packed:
			return fmt.Errorf("the page at byte %d says that its %d bytes unpack to %d, which is too many", at, packed, unpacked)
		case values < 0 || values > parquetPageValuesFree+parquetRatioMax*packed:
			return fmt.Errorf("the page at byte %d says that its %d bytes have %d values, which is too many", at, packed, values)
		}
		at += length + packed
	}
	return nil
}

// readPageHeader reads the header of the page at an offset, and returns its length as well.
func readPageHeader(file io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	for size := int64(512); ; size *= 8 {
		head := make([]byte, min(size, end-at))
		if _, err := file.ReadAt(head, at); err != nil {
			return nil, 0, err
		}
		n, ok := compactStruct(head)
		if !ok && size < min(end-at, parquetHeaderBytesMax) {
			continue
		}
		if !ok {
			return nil, 0, errCompact
		}
		header := new(format.PageHeader)
		err := thrift.Unmarshal(new(thrift.CompactProtocol), head[:n], header)
		return header, int64(n), err
	}
}

// pageValues returns how many values a page claims to have: the largest number, if its header has several.
func pageValues(h *format.PageHeader) int64 {
	n := max(h.DataPageHeader.V.NumValues, h.DictionaryPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues)
	if least := min(h.DataPageHeader.V.NumValues, h.DictionaryPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues); least < 0 {
		n = least
	}
	return int64(n)
}

// compactStruct returns the length of the struct at the beginning of data, if everything in it has the length that it claims. The struct
// is in Thrift's compact protocol (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
func compactStruct(data []byte) (length int, ok bool) {
	c := &compact{data: data}
	c.value(compactTypeStruct, 0)
	return len(data) - len(c.data), !c.bad
}

// Types of Thrift's compact protocol.
const (
	compactTypeTrue   = 1
	compactTypeFalse  = 2
	compactTypeByte   = 3
	compactTypeI16    = 4
	compactTypeI32    = 5
	compactTypeI64    = 6
	compactTypeDouble = 7
	compactTypeBinary = 8
	compactTypeList   = 9
	compactTypeSet    = 10
	compactTypeMap    = 11
	compactTypeStruct = 12
)

// compact goes over values of the protocol; data are what is left.
type compact struct {
	data []byte
	bad  bool
}

func (c *compact) skip(n uint64) {
	c.bad = c.bad || n > uint64(len(c.data))
	c.data = c.data[min(n, uint64(len(c.data))):]
}

func (c *compact) byte() (b byte) {
	if len(c.data) > 0 {
		b = c.data[0]
	}
	c.skip(1)
	return b
}

func (c *compact) uvarint() uint64 {
	v, n := binary.Uvarint(c.data)
	c.bad = c.bad || n <= 0
	c.skip(uint64(max(n, 0)))
	return v
}

// value goes over a value.
func (c *compact) value(kind byte, depth int) {
	if c.bad = c.bad || depth > compactDepthMax; c.bad {
		return
	}
	switch kind {
	case compactTypeTrue, compactTypeFalse: // the type says which
	case compactTypeByte:
		c.skip(1)
	case compactTypeI16, compactTypeI32, compactTypeI64:
		c.uvarint()
	case compactTypeDouble:
		c.skip(8)
	case compactTypeBinary:
		c.skip(c.uvarint())
	case compactTypeList, compactTypeSet:
		head := c.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = c.uvarint()
		}
		c.elements(n, depth, head&15)
	case compactTypeMap:
		if n := c.uvarint(); n > 0 {
			kinds := c.byte()
			c.elements(n, depth, kinds>>4, kinds&15)
		}
	case compactTypeStruct:
		for head := c.byte(); head != 0 && !c.bad; head = c.byte() {
			if head>>4 == 0 { // the field's number follows; otherwise the head holds its distance from the last one
				c.uvarint()
			}
			c.value(head&15, depth+1)
		}
	default:
		c.bad = true
	}
}

// elements goes over n elements of a list, or n pairs of a map. Each takes a byte at least, booleans too.
func (c *compact) elements(n uint64, depth int, kinds ...byte) {
	c.bad = c.bad || n > uint64(len(c.data))
	for ; n > 0 && !c.bad; n-- {
		for _, kind := range kinds {
			if kind == compactTypeTrue || kind == compactTypeFalse {
				kind = compactTypeByte
			}
			c.value(kind, depth+1)
		}
	}
}
