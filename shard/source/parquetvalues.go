package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// What stands in a page once it is unpacked may say again how much of it there is: a run of 2³¹ values has six bytes
// (https://parquet.apache.org/docs/file-format/data-pages/encodings/). The reader makes room by these numbers alone; so they are added up before.

// plainDictionary is what old writers call RLEDictionary in data pages.
const plainDictionary format.Encoding = 2

// parquetValues are what the schema says of a column: the largest levels of its values, 0 where they have none, and the bits of a whole number.
type parquetValues struct {
	repetition, definition int
	bits                   byte
}

var (
	errManyValues = errors.New("its values are more, or damaged")
	errShared     = errors.New("its values, which share their beginnings, are too large")
)

// check looks at a page's bytes, unpacked; in version 2 the levels lie apart from them.
func (c parquetValues) check(p parquetPage, levels, data []byte) error {
	for i, largest := range []int{c.repetition, c.definition} {
		of := levels
		switch format.PageType(p.kind) {
		case format.DataPageV2:
			n := []int64{p.repetitions, p.definitions}[i]
			if n < 0 || n > int64(len(levels)) {
				return errManyValues
			}
			of, levels = levels[:n], levels[n:]
		case format.DataPage:
			if largest == 0 {
				continue
			}
			if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
				return errManyValues
			}
			n := 4 + int(binary.LittleEndian.Uint32(data))
			of, data = data[4:n], data[n:]
		}
		if largest > 0 && !checkRuns(of, uint(bits.Len(uint(largest))), p.values) {
			return errManyValues
		}
	}
	return c.checkEncoded(p, data)
}

// checkEncoded looks at the values alone.
func (c parquetValues) checkEncoded(p parquetPage, data []byte) error {
	ok := true
	switch format.Encoding(p.encoding) {
	case plainDictionary, format.RLEDictionary: // the width of the indices, and their runs
		ok = format.PageType(p.kind) == format.DictionaryPage || len(data) == 0 || checkRuns(data[1:], uint(data[0]), p.values)
	case format.RLE: // of booleans, behind the length of the runs
		ok = len(data) < 4 || checkRuns(data[4:], 1, p.values)
	case format.DeltaBinaryPacked:
		_, ok = afterDelta(data, p.values, c.bits)
	case format.DeltaLengthByteArray:
		_, ok = afterDelta(data, p.values, 32)
	case format.DeltaByteArray:
		return checkShared(p, data)
	}
	if !ok {
		return errManyValues
	}
	return nil
}

// checkShared looks at values of the encoding DELTA_BYTE_ARRAY: how much of the one before each begins with, how long the rest of each is, the rests.
func checkShared(p parquetPage, data []byte) error {
	rest, ok := afterDelta(data, p.values, 32)
	if !ok {
		return errManyValues
	}
	shared, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, data[:len(data)-len(rest)])
	if err != nil {
		return err
	}
	if rest, ok = afterDelta(rest, p.values, 32); !ok {
		return errManyValues
	}
	size := int64(len(rest))
	for _, n := range shared {
		size += max(0, int64(n)) // what is less the reader refuses
	}
	if size > parquetPageBytesMax || size > parquetPageBytesFree+parquetRatioMax*p.packed {
		return fmt.Errorf("%w: %d bytes", errShared, size)
	}
	return nil
}

// checkRuns says that the runs and groups of eight of a hybrid of run lengths and bit-packing have no more values than the page, and what pads them.
func checkRuns(data []byte, width uint, values int64) bool {
	const padding = 1 << 16
	left := uint64(values) + padding
	for len(data) > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 {
			return false
		}
		data = data[n:]
		count, bytes := head>>1, uint64(width+7)/8
		if head&1 != 0 { // groups of eight
			if count > left/8 {
				return false
			}
			count, bytes = 8*count, count*uint64(width)
		}
		if count > left {
			return false
		}
		left -= count
		data = data[min(bytes, uint64(len(data))):]
	}
	return true
}

// afterDelta passes over whole numbers of the encoding DELTA_BINARY_PACKED, and says that they are no more than the page's values, and none of more bits:
//
//	values in a block | miniblocks in it | values in all | the first | blocks of: smallest difference | bits, a byte for each miniblock | miniblocks
func afterDelta(data []byte, values int64, bitsMax byte) (rest []byte, ok bool) {
	ok = true
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			data, ok = nil, false
			return 0
		}
		data = data[n:]
		return v
	}
	block, minis, left := number(), number(), number()
	number()
	if !ok || left > uint64(values) || block > 1<<16 || minis == 0 || minis > block {
		return nil, false
	}
	if left > 0 {
		left-- // the first
	}
	for each := block / minis; left > 0 && len(data) > 0; {
		number()
		widths := data[:min(minis, uint64(len(data)))]
		data = data[len(widths):]
		for _, width := range widths {
			if left == 0 {
				break
			}
			if width > bitsMax {
				return nil, false
			}
			data = data[min(each*uint64(width)/8, uint64(len(data))):]
			left -= min(each, left)
		}
	}
	return data, ok
}
