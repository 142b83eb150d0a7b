package source

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strings"
)

// A zip ends in the list of its members (APPNOTE.TXT of PKWARE, 4.3):
//
//	"PK\1\2" | … | flags u16 @8 | method u16 @10 | crc @16 | packed u32 @20 | size u32 @24 | lengths of name, extra, comment u16 @28 | … | offset u32 @42 | name | extra | comment
//	…
//	"PK\5\6" | … | members u16 @10 | bytes of the list u32 @12 | its offset u32 @16 | length of a comment u16 @20 | comment
//
// Numbers that are too large for their places stand elsewhere, in a record "PK\6\6" and in the extra field 1 of a member. Package archive/zip keeps
// some 400 bytes of each member; this keeps 32 and the name, since there are zips of millions of images.

const (
	zipEndBytes      = 22
	zipEnd64Bytes    = 56
	zipLocatorBytes  = 20
	zipMemberBytes   = 46
	zipLocalBytes    = 30
	zipStored        = 0
	zipDeflated      = 8
	zipFlagEncrypted = 1
	// zipRatioMax is how much deflate can pack: no honest member claims more, and none should make memory be allocated for what is not there.
	zipRatioMax = 1032
)

// Sorts of members.
const (
	zipRegular = iota
	zipFolder
	zipOther // a link, say
)

// zipMember is a member.
type zipMember struct {
	offset int64 // of its local header
	packed uint32
	size   uint32 // math.MaxUint32: that or more, too large for an image
	crc    uint32
	nameAt uint32 // in zipList.names
	length uint16 // of the name
	method uint8
	sort   uint8
}

// zipList is the members of a zip, in the order of their names.
type zipList struct {
	file    *os.File
	names   []byte
	members []zipMember
}

func (l *zipList) nameOf(m zipMember) []byte { return l.names[m.nameAt:][:m.length] }
func (l *zipList) name(i int) string         { return string(l.nameOf(l.members[i])) }

var errZipList = errors.New("the list of its members, which stands at the end, cannot be read")

// readZipList reads the list.
func readZipList(file *os.File, name string) (*zipList, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	at, size, base, err := findZipList(file, info.Size())
	if err != nil {
		if errors.Is(err, errZipList) {
			err = &FormatError{Path: name, Msg: "begins as a zip does, but the list of its members, which stands at the end, cannot be read: the download is incomplete"}
		}
		return nil, err
	}
	l := &zipList{file: file}
	r := bufio.NewReaderSize(io.NewSectionReader(file, at, size), int(min(size, readAheadBytes)))
	var head [zipMemberBytes]byte
	var text []byte
	for left := size; left > 0; {
		if _, err := io.ReadFull(r, head[:]); err != nil || !bytes.HasPrefix(head[:], []byte("PK\x01\x02")) {
			return nil, &FormatError{Path: name, Msg: fmt.Sprintf("the list of its members is damaged after %d of them", len(l.members)), Err: err}
		}
		le := binary.LittleEndian
		lengths := [3]int{int(le.Uint16(head[28:])), int(le.Uint16(head[30:])), int(le.Uint16(head[32:]))}
		n := lengths[0] + lengths[1] + lengths[2]
		if cap(text) < n {
			text = make([]byte, n)
		}
		if _, err := io.ReadFull(r, text[:n]); err != nil {
			return nil, &FormatError{Path: name, Msg: fmt.Sprintf("the list of its members is damaged after %d of them", len(l.members)), Err: err}
		}
		left -= int64(zipMemberBytes + n)
		raw := string(text[:lengths[0]])
		if err := l.add(head[:], raw, text[lengths[0]:][:lengths[1]], base, at); err != nil {
			return nil, &FormatError{Path: name, Entry: raw, Msg: "refused: " + err.Error()}
		}
	}
	return l, l.check(name)
}

// findZipList finds the list: where it begins, its length, and what is to be added to offsets, since something may stand before the zip.
func findZipList(file io.ReaderAt, size int64) (at, length, base int64, err error) {
	tail := make([]byte, min(size, zipEndBytes+math.MaxUint16))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return 0, 0, 0, err
	}
	le := binary.LittleEndian
	for i := len(tail) - zipEndBytes; i >= 0; i-- {
		if end := tail[i:]; !bytes.HasPrefix(end, []byte("PK\x05\x06")) || int(le.Uint16(end[20:])) > len(end)-zipEndBytes {
			continue
		}
		endAt := size - int64(len(tail)) + int64(i)
		length, at = int64(le.Uint32(tail[i+12:])), int64(le.Uint32(tail[i+16:]))
		if length == math.MaxUint32 || at == math.MaxUint32 || le.Uint16(tail[i+10:]) == math.MaxUint16 {
			if found, end64 := zip64End(file, endAt); found {
				var record [zipEnd64Bytes]byte
				if _, err := file.ReadAt(record[:], end64); err != nil {
					return 0, 0, 0, errZipList
				}
				length, at, endAt = int64(le.Uint64(record[40:])), int64(le.Uint64(record[48:])), end64
			}
		}
		if length < 0 || at < 0 || length > endAt || at > endAt-length {
			return 0, 0, 0, errZipList
		}
		base = endAt - length - at
		return at + base, length, base, nil
	}
	return 0, 0, 0, errZipList
}

// zip64End finds the record with the large numbers, by what stands before the end.
func zip64End(file io.ReaderAt, endAt int64) (bool, int64) {
	var locator [zipLocatorBytes]byte
	if endAt < zipLocatorBytes {
		return false, 0
	}
	if _, err := file.ReadAt(locator[:], endAt-zipLocatorBytes); err != nil || !bytes.HasPrefix(locator[:], []byte("PK\x06\x07")) {
		return false, 0
	}
	at := int64(binary.LittleEndian.Uint64(locator[8:]))
	var magic [4]byte
	if at < 0 || at > endAt-zipLocatorBytes-zipEnd64Bytes {
		return false, 0
	}
	_, err := file.ReadAt(magic[:], at)
	return err == nil && string(magic[:]) == "PK\x06\x06", at
}

// add takes a member, whose offset base is added to, and whose bytes lie before those of the list.
func (l *zipList) add(head []byte, raw string, extra []byte, base, list int64) error {
	name, err := zipNameError(raw)
	if err != nil || name == "" {
		return err
	}
	le := binary.LittleEndian
	packed, size, offset := uint64(le.Uint32(head[20:])), uint64(le.Uint32(head[24:])), uint64(le.Uint32(head[42:]))
	zip64Numbers(extra, &size, &packed, &offset)
	m := zipMember{crc: le.Uint32(head[16:]), sort: zipRegular, method: uint8(min(le.Uint16(head[10:]), math.MaxUint8))}
	attributes := le.Uint32(head[38:])
	switch fileType := attributes >> 16 & 0o170000; {
	case strings.HasSuffix(raw, "/"):
		m.sort = zipFolder
	case le.Uint16(head[8:])&zipFlagEncrypted != 0:
		return errors.New("it is encrypted: unpack it with its password")
	case head[5] == 3 && fileType != 0 && fileType != 0o100000: // made on Unix
		m.sort = zipOther
	}
	switch {
	case m.sort == zipRegular && m.method == zipDeflated && size > zipRatioMax*(packed+1), m.method == zipStored && size != packed:
		return fmt.Errorf("its %d bytes are said to unpack to %d, which cannot be", packed, size)
	case offset > math.MaxInt64-uint64(base), packed > math.MaxInt64, int64(packed) > list-base-int64(offset):
		return fmt.Errorf("its %d bytes are said to begin at byte %d, which are not before the list of the members at byte %d", packed, offset, list-base)
	case uint64(len(l.names))+uint64(len(name)) > math.MaxUint32:
		return errors.New("the names of the members are of more than 4 GB")
	}
	m.offset, m.packed, m.size = int64(offset)+base, uint32(min(packed, math.MaxUint32)), uint32(min(size, math.MaxUint32))
	m.nameAt, m.length = uint32(len(l.names)), uint16(len(name))
	l.names = append(l.names, name...)
	l.members = append(l.members, m)
	return nil
}

// zip64Numbers replaces numbers that are all ones by those of the extra field 1, which has them in this order.
func zip64Numbers(extra []byte, numbers ...*uint64) {
	le := binary.LittleEndian
	for len(extra) >= 4 {
		n := int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			return
		}
		if le.Uint16(extra) == 1 {
			field := extra[4:][:n]
			for _, number := range numbers {
				if *number == math.MaxUint32 && len(field) >= 8 {
					*number = le.Uint64(field)
					field = field[8:]
				}
			}
			return
		}
		extra = extra[4+n:]
	}
}

// open unpacks a member.
func (m zipMember) open(file io.ReaderAt) (io.ReadCloser, error) {
	var head [zipLocalBytes]byte
	if _, err := file.ReadAt(head[:], m.offset); err != nil {
		return nil, fmt.Errorf("at byte %d: %w", m.offset, err)
	}
	if !bytes.HasPrefix(head[:], []byte("PK\x03\x04")) {
		return nil, fmt.Errorf("at byte %d, where it should begin, it does not", m.offset)
	}
	at := m.offset + zipLocalBytes + int64(binary.LittleEndian.Uint16(head[26:])) + int64(binary.LittleEndian.Uint16(head[28:]))
	r := &zipReader{sum: crc32.NewIEEE(), want: m.crc, left: int64(m.size)}
	packed := io.NewSectionReader(file, at, int64(m.packed))
	switch m.method {
	case zipStored:
		r.Reader = packed
	case zipDeflated:
		r.Reader = flate.NewReader(bufio.NewReader(packed))
	default:
		return nil, fmt.Errorf("it is packed by method %d, of which only 0 (stored) and 8 (deflate) are read: pack it again, or unpack it", m.method)
	}
	return r, nil
}

// zipReader gives a member's content and checks its length and checksum.
type zipReader struct {
	io.Reader
	sum  hash.Hash32
	want uint32
	left int64
}

var errZipDamaged = errors.New("its content is damaged: the checksum or the length differs from that in the list")

func (r *zipReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.sum.Write(p[:n])
	if r.left -= int64(n); r.left < 0 {
		return n, errZipDamaged
	}
	if err == io.EOF && (r.left > 0 || r.sum.Sum32() != r.want) {
		return n, errZipDamaged
	}
	return n, err
}

func (r *zipReader) Close() error { return nil }
