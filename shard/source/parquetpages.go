package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The reader of parquet allocates what a file says that it needs. Headers are therefore looked at before it sees them: a file of a few bytes must not
// be able to ask for gigabytes. They are written in Thrift's compact protocol
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).

const (
	// parquetPageBytesMax bounds a page as it is unpacked, and parquetRatioMax how much larger than packed it may be, beyond parquetPageBytesFree.
	parquetPageBytesMax  = 1 << 30
	parquetPageBytesFree = 8 << 20
	parquetRatioMax      = 1000
	// parquetPageValuesFree is how many values a page may have, and parquetRatioMax more for each byte. Writers end pages after some ten thousand.
	parquetPageValuesFree = 1 << 20
	// parquetHeaderBytesMax bounds the header of a page, which may hold a smallest and a largest value.
	parquetHeaderBytesMax = 1 << 20
	compactDepthMax       = 32
)

// Types of Thrift's compact protocol.
const (
	compactTrue   = 1
	compactFalse  = 2
	compactByte   = 3
	compactI16    = 4
	compactI64    = 6
	compactDouble = 7
	compactBinary = 8
	compactList   = 9
	compactSet    = 10
	compactMap    = 11
	compactStruct = 12
)

var errCompact = errors.New("its metadata are damaged")

// compact goes through a value of the protocol and checks that everything in it has the length that it says.
type compact struct {
	data []byte
	at   int
	bad  bool
}

func (c *compact) byte() byte {
	if c.at >= len(c.data) {
		c.bad = true
		return 0
	}
	c.at++
	return c.data[c.at-1]
}

func (c *compact) uvarint() uint64 {
	v, n := binary.Uvarint(c.data[min(c.at, len(c.data)):])
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.at += n
	return v
}

// varint is a whole number of any size.
func (c *compact) varint() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// advance passes over n bytes.
func (c *compact) advance(n uint64) {
	if n > uint64(len(c.data)-min(c.at, len(c.data))) {
		c.bad = true
		return
	}
	c.at += int(n)
}

// value passes over a value; in a list and in a map booleans have a byte.
func (c *compact) value(kind byte, inList bool, depth int) {
	if depth > compactDepthMax {
		c.bad = true
	}
	if c.bad {
		return
	}
	switch {
	case kind == compactTrue || kind == compactFalse:
		if inList {
			c.byte()
		}
	case kind == compactByte:
		c.byte()
	case kind >= compactI16 && kind <= compactI64:
		c.uvarint()
	case kind == compactDouble:
		c.advance(8)
	case kind == compactBinary:
		c.advance(c.uvarint())
	case kind == compactList || kind == compactSet:
		head := c.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = c.uvarint()
		}
		c.values(n, depth, head&15)
	case kind == compactMap:
		n := c.uvarint()
		if n > 0 {
			kinds := c.byte()
			c.values(n, depth, kinds>>4, kinds&15)
		}
	case kind == compactStruct:
		c.fields(depth, nil)
	default:
		c.bad = true
	}
}

// values passes over n values, or pairs of them, each of which takes a byte at least.
func (c *compact) values(n uint64, depth int, kinds ...byte) {
	if n > uint64(len(c.data)) {
		c.bad = true
	}
	for ; n > 0 && !c.bad; n-- {
		for _, kind := range kinds {
			c.value(kind, true, depth+1)
		}
	}
}

// fields passes over a struct; take may take a field's value itself, and then says so. A field stands in it once: of one that stands twice two readers
// may take another each.
func (c *compact) fields(depth int, take func(id int64, kind byte) bool) {
	id := int64(0)
	var seen uint64
	for !c.bad {
		head := c.byte()
		if head == 0 {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int64(delta)
		} else {
			id = c.varint()
		}
		if known := uint64(1) << (id & 63); id >= 0 && id < 64 {
			c.bad = c.bad || seen&known != 0
			seen |= known
		}
		if take == nil || !take(id, head&15) {
			c.value(head&15, false, depth+1)
		}
	}
}

// checkParquetMetadata checks the metadata at a file's end.
func checkParquetMetadata(data []byte) error {
	c := &compact{data: data}
	if c.fields(0, nil); c.bad {
		return errCompact
	}
	return nil
}

// parquetPage is what the header of a page says.
type parquetPage struct {
	unpacked, packed, values int64
	kind, encoding           int64 // a format.PageType and a format.Encoding
	repetitions, definitions int64 // bytes of the levels of a page of version 2, which lie before what is packed
	plain                    bool  // a page of version 2 that isn't packed
	header                   int   // its own length
}

// readParquetPage reads a header.
func readParquetPage(data []byte) (p parquetPage, err error) {
	c := &compact{data: data}
	isNumber := func(kind byte) bool { return kind >= compactI16 && kind <= compactI64 }
	number := func(to *int64) bool {
		*to = c.varint()
		return true
	}
	values := func() bool { // of all headers in it, whichever the reader takes
		v := c.varint()
		if p.values >= 0 && (v < 0 || v > p.values) {
			p.values = v
		}
		return true
	}
	var of [format.DataPageV2 + 1]parquetPage // what each kind of header says; the page has that of its own kind
	header := func(kind format.PageType) bool {
		to := &of[kind]
		c.fields(1, func(id int64, wire byte) bool {
			v2 := kind == format.DataPageV2
			to.plain = to.plain || v2 && id == 7 && wire == compactFalse
			switch {
			case !isNumber(wire):
			case id == 1:
				return values()
			case id == 2 && !v2, id == 4 && v2:
				return number(&to.encoding)
			case id == 5 && v2:
				return number(&to.definitions)
			case id == 6 && v2:
				return number(&to.repetitions)
			}
			return false
		})
		return true
	}
	c.fields(0, func(id int64, kind byte) bool {
		switch {
		case id == 1 && isNumber(kind):
			return number(&p.kind)
		case id == 2 && isNumber(kind):
			return number(&p.unpacked)
		case id == 3 && isNumber(kind):
			return number(&p.packed)
		case id == 5 && kind == compactStruct:
			return header(format.DataPage)
		case id == 7 && kind == compactStruct:
			return header(format.DictionaryPage)
		case id == 8 && kind == compactStruct:
			return header(format.DataPageV2)
		}
		return false
	})
	if p.kind >= 0 && p.kind < int64(len(of)) {
		own := of[p.kind]
		p.encoding, p.plain, p.repetitions, p.definitions = own.encoding, own.plain, own.repetitions, own.definitions
	}
	if p.header = c.at; c.bad {
		err = errCompact
	}
	return p, err
}

// checkGroup looks at the pages of a row group's columns that are read.
func (f *parquetFile) checkGroup(i int) error {
	columns := []int{f.image, f.label}
	if f.imagePath >= 0 {
		columns = append(columns, f.imagePath)
	}
	for _, c := range f.fields {
		columns = append(columns, c.leaf)
	}
	first, chunks := f.Metadata().RowGroups[0].Columns, f.Metadata().RowGroups[i].Columns
	for _, column := range columns {
		if column >= len(chunks) || column >= len(first) {
			return errCompact
		}
		// The reader takes what the first group says of how the column is packed for all of them.
		u := parquetUnpacker{file: f.file, size: f.Size(), codec: first[column].MetaData.Codec, values: f.valuesOf(column), buffers: &f.buffers}
		if err := u.chunk(&chunks[column].MetaData); err != nil {
			return err
		}
	}
	return nil
}

// valuesOf returns what the schema says of a column.
func (f *parquetFile) valuesOf(column int) parquetValues {
	leaf, _ := f.Schema().Lookup(f.Schema().Columns()[column]...)
	v := parquetValues{repetition: leaf.MaxRepetitionLevel, definition: leaf.MaxDefinitionLevel, bits: 64}
	if leaf.Node.Type().Kind() == parquet.Int32 {
		v.bits = 32
	}
	return v
}

// chunk looks at all pages of a column in a row group.
func (u *parquetUnpacker) chunk(chunk *format.ColumnMetaData) error {
	at := chunk.DataPageOffset
	if chunk.DictionaryPageOffset > 0 {
		at = chunk.DictionaryPageOffset
	}
	if at < 4 || at > u.size || chunk.TotalCompressedSize < 0 || chunk.TotalCompressedSize > u.size-at {
		return fmt.Errorf("a column says that its %d bytes begin at byte %d of %d", chunk.TotalCompressedSize, at, u.size)
	}
	head := make([]byte, 512)
	for end := at + chunk.TotalCompressedSize; at < end; {
		n, err := u.file.ReadAt(head[:min(int64(len(head)), end-at)], at)
		if err != nil && err != io.EOF {
			return err
		}
		p, err := readParquetPage(head[:n])
		if err != nil && n == len(head) && n < parquetHeaderBytesMax {
			head = make([]byte, 8*len(head))
			continue
		}
		switch {
		case err != nil:
			return fmt.Errorf("the page at byte %d: %w", at, err)
		case p.packed < 0 || p.packed > end-at-int64(p.header):
			return fmt.Errorf("the page at byte %d says that it has %d bytes, more than its column", at, p.packed)
		case p.unpacked < 0 || p.unpacked > parquetPageBytesMax || p.unpacked > parquetPageBytesFree+parquetRatioMax*p.packed:
			return fmt.Errorf("the page at byte %d says that its %d bytes unpack to %d, which is too many", at, p.packed, p.unpacked)
		case p.values < 0 || p.values > parquetPageValuesFree+parquetRatioMax*p.packed:
			return fmt.Errorf("the page at byte %d says that its %d bytes have %d values, which is too many", at, p.packed, p.values)
		}
		if err := u.check(at+int64(p.header), p); errors.Is(err, errLZ4) {
			return err
		} else if err != nil {
			return fmt.Errorf("the page at byte %d says that it has %d bytes unpacked, %d values: %w", at, p.unpacked, p.values, err)
		}
		at += int64(p.header) + p.packed
	}
	return nil
}
