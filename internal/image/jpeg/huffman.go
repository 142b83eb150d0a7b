package jpeg

import "fmt"

// lookupBits is the width of the window that the Huffman tables look at. Ten bits keep both AC tables of an image in the
// first-level cache; eleven and twelve resolve more codes at once and are slower.
const lookupBits = 10

// A huffmanSpec is a table of a DHT segment: the number of codes of each length, and their symbols.
type huffmanSpec struct {
	present bool
	built   bool      // the slot's table is up to date
	counts  [17]uint8 // counts[n] codes of n bits
	symbols [256]uint8
}

// A huffmanTable decodes one Huffman code, and for AC coefficients one or two with their values.
type huffmanTable struct {
	// pairs is indexed by the next ten bits; see [huffmanTable.buildPairs].
	pairs [1 << lookupBits]uint64
	// codes holds length<<8 | symbol for codes of up to ten bits, 0 for longer ones.
	codes [1 << lookupBits]uint16
	// A code c of n bits is valid if c<<(16-n) < limit[n]; its symbol is symbols[c+first[n]].
	limit   [18]uint32
	first   [18]int32
	symbols [256]uint8
}

// build prepares the table for codes one at a time, without the look-up of short ones. It refuses the same as libjpeg:
// codes that do not fit their length, including the code of all ones, and DC symbols above 15.
func (t *huffmanTable) build(spec *huffmanSpec, dc bool) error {
	t.symbols = spec.symbols
	code, k := uint32(0), 0
	for n := 1; n <= 16; n++ {
		t.first[n] = int32(k) - int32(code)
		count := int(spec.counts[n])
		code += uint32(count)
		k += count
		if count > 0 && code >= 1<<n {
			return fmt.Errorf("the Huffman table has too many codes of %d bits", n)
		}
		t.limit[n] = code << (16 - n)
		code <<= 1
	}
	t.limit[17] = 1<<32 - 1
	if dc {
		for _, symbol := range spec.symbols[:k] {
			if symbol > 15 {
				return fmt.Errorf("DC Huffman table has the symbol %d, above 15", symbol)
			}
		}
	}
	return nil
}

// fillRuns sets table[i], for each ten bits i that start with a code of up to ten bits, to entry(length, symbol), and the
// others to zero. Codes ascend with their lengths, so the table is filled from its start.
func fillRuns[T uint16 | uint64](table *[1 << lookupBits]T, spec *huffmanSpec, entry func(length uint, symbol uint8) T) {
	at, k := 0, 0
	for n := uint(1); n <= lookupBits; n++ {
		for range spec.counts[n] {
			e := entry(n, spec.symbols[k])
			run := table[at:][:1<<(lookupBits-n)]
			for i := range run {
				run[i] = e
			}
			at += len(run)
			k++
		}
	}
	clear(table[at:])
}

// buildCodes fills the look-up of short codes, one at a time.
func (t *huffmanTable) buildCodes(spec *huffmanSpec) {
	fillRuns(&t.codes, spec, func(length uint, symbol uint8) uint16 { return uint16(length)<<8 | uint16(symbol) })
}

// endOfBlock is the amount that EOB adds to the coefficient's index: it exceeds the block's 64 coefficients in one
// step, and keeps the index of the last coefficient in the low bits.
const endOfBlock = 128

// buildPairs fills the table of the AC loop. An entry, from the lowest bit:
//
//	 0-5   bits consumed in total; an entry of 0 is a code longer than ten bits, or invalid.
//	 6-11  63 - size of the last symbol's value.
//	12-17  bits before the last symbol's value.
//	24-31  advance of the index by the first of two symbols; endOfBlock if there is only one symbol.
//	32-47  value of the first of two symbols.
//	56-63  advance of the index by all symbols; endOfBlock more if the last one is EOB.
//
// The last symbol's value may lie outside the ten bits: the loop reads it from the buffer without a branch. For
// example, with the standard luminance table 01 is run 0, size 2. The window 01 11 1010 00 has this symbol with the
// value 3, then EOB (1010), and two bits of the next block.
//
// The entry of two symbols is the sum of the second one's own entry and the first one's addends to its fields. singles
// is scratch memory for the entries of one symbol.
func (t *huffmanTable) buildPairs(spec *huffmanSpec, singles *[1 << lookupBits]uint64) {
	fillRuns(singles, spec, func(length uint, symbol uint8) uint64 {
		size, advance := uint(symbol&15), uint64(symbol>>4)+1
		if size == 0 && advance != 16 {
			advance = endOfBlock
		}
		return uint64(length+size) | uint64(63-size)<<6 | uint64(length)<<12 | endOfBlock<<24 | advance<<56
	})
	t.pairs = *singles
	at, k := 0, 0
	for n := uint(1); n < lookupBits; n++ {
		for range spec.counts[n] {
			symbol := spec.symbols[k]
			size, advance := uint(symbol&15), uint64(symbol>>4)+1
			if used := n + size; used < lookupBits && (size > 0 || advance == 16) {
				t.joinPairs(t.pairs[at:][:1<<(lookupBits-n)], singles, used, size, advance)
			}
			at += 1 << (lookupBits - n)
			k++
		}
	}
}

// joinPairs makes a code's entries pairs where a second code fits into the window after the used bits of the first one
// and its value. For each value these entries come first, since short codes are the lower ones.
func (t *huffmanTable) joinPairs(entries []uint64, singles *[1 << lookupBits]uint64, used, size uint, advance uint64) {
	unused := lookupBits - used
	fitting := t.limit[unused] >> (16 - unused)
	for v := range int32(1) << size {
		value := v
		if size > 0 && v < 1<<(size-1) {
			value += 1 - 1<<size
		}
		sum := uint64(used) | uint64(used)<<12 | (advance-endOfBlock)<<24 + uint64(uint16(value))<<32 + advance<<56
		run := entries[v<<unused:][:fitting]
		for j := range run {
			run[j] = singles[j<<used&(1<<lookupBits-1)] + sum
		}
	}
}

// badCode is the length that long returns for bits without a valid code. Sixteen of them are consumed.
const badCode = 16 | 1<<8

// long decodes the code at the top of buf bit by bit. Its length is badCode if it is invalid.
func (t *huffmanTable) long(buf uint64) (length uint64, symbol uint8) {
	code := uint32(buf >> 48)
	length = 1
	for code >= t.limit[length] {
		length++
	}
	if length > 16 {
		return badCode, 0
	}
	return length, t.symbols[uint8(int32(code>>(16-length))+t.first[length])]
}

// standardTables are the tables of annex K.3. libjpeg assumes them for sequential files without tables, such as frames of Motion JPEG.
var standardTables = [2][2]struct{ counts, symbols string }{
	{
		{"\x00\x01\x05\x01\x01\x01\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"},
		{"\x00\x03\x01\x01\x01\x01\x01\x01\x01\x01\x01\x00\x00\x00\x00\x00", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"},
	},
	{
		{"\x00\x02\x01\x03\x03\x02\x04\x03\x05\x05\x04\x04\x00\x00\x01\x7d",
			"\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07\x22\x71\x14\x32\x81\x91\xa1\x08\x23\x42\xb1\xc1\x15\x52" +
				"\xd1\xf0\x24\x33\x62\x72\x82\x09\x0a\x16\x17\x18\x19\x1a\x25\x26\x27\x28\x29\x2a\x34\x35\x36\x37\x38\x39\x3a\x43\x44\x45" +
				"\x46\x47\x48\x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\x75\x76\x77\x78\x79\x7a\x83" +
				"\x84\x85\x86\x87\x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4\xb5\xb6" +
				"\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8" +
				"\xe9\xea\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa"},
		{"\x00\x02\x01\x02\x04\x04\x03\x04\x07\x05\x04\x04\x00\x01\x02\x77",
			"\x00\x01\x02\x03\x11\x04\x05\x21\x31\x06\x12\x41\x51\x07\x61\x71\x13\x22\x32\x81\x08\x14\x42\x91\xa1\xb1\xc1\x09\x23\x33" +
				"\x52\xf0\x15\x62\x72\xd1\x0a\x16\x24\x34\xe1\x25\xf1\x17\x18\x19\x1a\x26\x27\x28\x29\x2a\x35\x36\x37\x38\x39\x3a\x43\x44" +
				"\x45\x46\x47\x48\x49\x4a\x53\x54\x55\x56\x57\x58\x59\x5a\x63\x64\x65\x66\x67\x68\x69\x6a\x73\x74\x75\x76\x77\x78\x79\x7a" +
				"\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x92\x93\x94\x95\x96\x97\x98\x99\x9a\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xb2\xb3\xb4" +
				"\xb5\xb6\xb7\xb8\xb9\xba\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xe2\xe3\xe4\xe5\xe6\xe7" +
				"\xe8\xe9\xea\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa"},
	},
}

// setStandard makes the spec one of the standard tables.
func (s *huffmanSpec) setStandard(class, slot int) {
	t := &standardTables[class][slot]
	*s = huffmanSpec{present: true}
	copy(s.counts[1:], t.counts)
	copy(s.symbols[:], t.symbols)
}
