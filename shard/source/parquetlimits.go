package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// parquet-go allocates as much memory as a file claims to need, so the sizes in the footer and in the headers of pages are checked first.
// The packed data are not checked: a page that unpacks to more than it claims costs that much memory.

const (
	parquetFooterBytesMax = 64 << 20 // bounds a file's metadata, which are held in memory
	parquetHeaderBytesMax = 64 << 10 // bounds the header of a page, which may hold a smallest and a largest value
	// parquetPageFree bounds the bytes and the values of an unpacked page, plus parquetPageRatio for each of its packed bytes.
	parquetPageFree  = 8 << 20
	parquetPageRatio = 1000
	thriftDepthMax   = 32
)

var (
	errThrift = errors.New("its metadata are damaged")
	// errLZ4 refuses LZ4: parquet-go 0.32 reads pages as zeros if they were packed to more than a third
	// (https://github.com/parquet-go/parquet-go/issues/608). For a damaged page it allocates ever more memory.
	errLZ4 = errors.New("it is compressed with LZ4, which is not supported: write the file again with another compression, such " +
		"as Zstandard")
)

// checkParquetFooter checks the metadata at the end of a file, which 4 bytes with their length and "PAR1" follow.
func checkParquetFooter(file io.ReaderAt, size int64) error {
	var end [8]byte
	if _, err := file.ReadAt(end[:], max(0, size-8)); err != nil && err != io.EOF {
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
	_, err := checkThrift(metadata)
	return err
}

// checkGroup checks the claims of a row group about the columns to read.
func (f *parquetFile) checkGroup(i int) error {
	first, chunks := f.Metadata().RowGroups[0].Columns, f.Metadata().RowGroups[i].Columns
	for _, column := range f.columns() {
		if column >= len(chunks) || column >= len(first) {
			return errThrift
		}
		// parquet-go takes the compression of a column from the first group, for all groups.
		if codec := first[column].MetaData.Codec; codec == format.Lz4Raw || codec == format.Lz4 {
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
		packed := int64(header.CompressedPageSize)
		values := max(header.DataPageHeader.V.NumValues, header.DictionaryPageHeader.V.NumValues, header.DataPageHeaderV2.V.NumValues)
		if packed < 0 || packed > end-at-length ||
			int64(max(header.UncompressedPageSize, values)) > parquetPageFree+parquetPageRatio*packed {
			return fmt.Errorf("the page at byte %d says that it has %d bytes, unpacked %d with %d values, which is too many", at, packed,
				header.UncompressedPageSize, values)
		}
		at += length + packed
	}
	return nil
}

// readPageHeader reads the header of the page at an offset, and returns its length as well.
func readPageHeader(file io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	head := make([]byte, min(parquetHeaderBytesMax, end-at))
	if _, err := file.ReadAt(head, at); err != nil {
		return nil, 0, err
	}
	n, err := checkThrift(head)
	header := new(format.PageHeader)
	if err == nil {
		err = thrift.Unmarshal(new(thrift.CompactProtocol), head[:n], header)
	}
	return header, int64(n), err
}

// checkThrift returns the length of the struct at the beginning of data, or an error if something in it is longer than data.
func checkThrift(data []byte) (length int, err error) {
	r := new(thrift.CompactProtocol).NewReaderFromBytes(data)
	if checkThriftValue(r, thrift.STRUCT, len(data), thriftDepthMax) != nil {
		err = errThrift
	}
	return r.BytesRead(), err
}

// checkThriftValue goes over a value in data of a size; it may hold others to a depth.
func checkThriftValue(r thrift.Reader, kind thrift.Type, size, depth int) (err error) {
	if depth == 0 {
		return errThrift
	}
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8:
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes()
	case thrift.LIST, thrift.SET:
		var list thrift.List
		if list, err = r.ReadList(); int(list.Size) > size-r.BytesRead() {
			return errThrift
		}
		for i := 0; err == nil && i < int(list.Size); i++ {
			err = checkThriftValue(r, list.Type, size, depth-1)
		}
	case thrift.STRUCT:
		for field, err := r.ReadField(); err != nil || field.Type != thrift.STOP; field, err = r.ReadField() {
			if err == nil && field.Type > thrift.FALSE { // the type of a boolean is its value
				err = checkThriftValue(r, field.Type, size, depth-1)
			}
			if err != nil {
				return err
			}
		}
	default: // parquet has no others
		return errThrift
	}
	return err
}
