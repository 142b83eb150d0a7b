// Package shard reads and writes shard sets: folders of immutable files that hold the encoded images of one split
// of a dataset, their labels and their keys, in the order that training serves them.
//
// The package moves bytes and checks them; what an image's bytes mean is the business of package transform.
// docs/format/shard.md specifies every byte. A shard file is, in short:
//
//	 0        16              16+H   R (8-aligned)
//	+--------+---------------+------+----------------------+-------+---------+------+--------+
//	| prefix | header (JSON) | CRC  | records              | slack | entries | keys | footer |
//	+--------+---------------+------+----------------------+-------+---------+------+--------+
//	 magic                           image+aux, each record  128     40 bytes  own    96 bytes;
//	 version                         fields, 8-aligned       zeros   a sample, CRC    own CRC,
//	 H                               with a CRC each                 one CRC          end magic.
//
// A shard set is:
//
//	train-shards/
//	  manifest.json            what is here, in what order, with sizes and checksums
//	  rank-0000/00000.imgshard …
//	  rank-0001/00000.imgshard …
//
// All integers are little-endian; every CRC is CRC-32C (Castagnoli).
package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// Version numbers the format of manifests and shard files; both carry the same number.
type Version uint32

// The version ledger: what each version added. A reader names the versions that it reads (versionOldest to
// versionCurrent) and refuses others with *UnsupportedError; a writer writes the oldest that can hold the set.
const (
	// version1 is the first: header, records of image and aux bytes, 40-byte entries, a key section, a 96-byte footer.
	version1 Version = 1
	// version2 adds fields: values behind the aux bytes of a record, their length in the entry, their names and types in header and
	// manifest. A set without fields is written as version1.
	version2 Version = 2
	// version3 adds the types objects and mask to fields. A set without them is written as version1 or version2.
	version3 Version = 3

	// versionOldest is the oldest version that this package reads.
	versionOldest = version1
	// versionCurrent is the newest version that this package reads and writes.
	versionCurrent = version3
)

// Sizes of the fixed parts, in bytes.
const (
	prefixSize  = 16
	entrySize   = 40
	footerSize  = 96
	recordAlign = 8

	// SlackBytes are readable after the last byte of every record: zeros after the last record of a file, and
	// in the buffer that Read fills. Decoders may load whole vectors there; what they load must not matter.
	SlackBytes = 128
)

// Limits. A writer refuses what exceeds them; a reader calls a file that claims more corrupt, so
// that a hostile file can't make it allocate without bound.
const (
	PartitionsMax   = 1 << 16 // the most partitions that a set can have
	RecordBytesMax  = 1 << 30 // bounds the image, aux and field bytes of one record
	keyBytesMax     = 4096    // bounds one key
	ShardSamplesMax = 1 << 20 // bounds the samples of one shard file

	keyBlobBytesMax  = 1 << 28
	headerBytesMax   = 1 << 20
	manifestBytesMax = 1 << 28
)

const (
	magicStart = "imgshard"
	magicEnd   = "imgshend"
)

// alignUp rounds n up to a multiple of recordAlign.
func alignUp(n int64) int64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// A Format tells what kind of file a record's image bytes are, by its number on disk. String names it. If it is zero, the decoder
// finds the kind by the image's first bytes.
type Format = imagefile.Format

// Encoding says how a set stores its images: a name ("jpeg": the original bytes; "pixels": resized once, lossless)
// and parameters that only the encoding's packer and decoder interpret.
type Encoding struct {
	Name   string          `json:"name"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Equal reports whether e and o have the same name and the same parameters, byte for byte except white space.
func (e Encoding) Equal(o Encoding) bool {
	return e.Name == o.Name && bytes.Equal(compactJSON(e.Params), compactJSON(o.Params))
}

// String returns the name that people know, which is not "jpeg", and the parameters, cut short where they are long.
func (e Encoding) String() string {
	if e.Name == "jpeg" {
		e.Name = "original"
	}
	if len(e.Params) == 0 {
		return e.Name
	}
	return fmt.Sprintf("%s %.200s", e.Name, compactJSON(e.Params))
}

// compactJSON removes the white space from JSON; it leaves anything else as it is.
func compactJSON(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// Sample is one image on its way into a set.
type Sample struct {
	Key           string // path relative to the split's root, with forward slashes
	Label         int32  // index into the classes, or -1 without a label
	Width, Height int    // size of the stored image, in pixels
	Format        Format
	Image         []byte
	Aux           []byte // what helps to decode Image (for JPEG the row index); may be empty
	Fields        []byte // the values of the set's fields, one after the other, as AppendInts, AppendFloats and AppendBytes write them

	Outside *Outside // set instead of Image when the set is an index
}

// Entry is what the index knows of one sample, as its 40 bytes lie in the shard file.
type Entry struct {
	Offset        int64  // offset of the image bytes in the shard file; aux and field bytes follow at once
	ImageLength   uint32 // bytes
	AuxLength     uint32 // bytes
	Checksum      uint32 // CRC-32C of the image, aux and field bytes
	Label         int32  // index into the classes, or -1
	Width, Height int32  // pixels
	Format        Format
	_             [3]byte
	FieldsLength  uint32 // bytes
}

func (e *Entry) length() int64 {
	return int64(e.ImageLength) + int64(e.AuxLength) + int64(e.FieldsLength)
}

// parseEntry reads an entry from its 40 bytes. It does what binary.Decode would do, without allocating.
func parseEntry(p []byte) Entry {
	_ = p[entrySize-1]
	return Entry{
		Offset:      int64(binary.LittleEndian.Uint64(p[0:])),
		ImageLength: binary.LittleEndian.Uint32(p[8:]),
		AuxLength:   binary.LittleEndian.Uint32(p[12:]),
		Checksum:    binary.LittleEndian.Uint32(p[16:]),
		Label:       int32(binary.LittleEndian.Uint32(p[20:])),
		Width:       int32(binary.LittleEndian.Uint32(p[24:])),
		Height:      int32(binary.LittleEndian.Uint32(p[28:])),
		Format:      Format(p[32]),

		FieldsLength: binary.LittleEndian.Uint32(p[36:]),
	}
}

// header is the JSON at the start of a shard file. It says how to decode the records and where the file belongs,
// so that a file that replaces another is found out.
type header struct {
	Split      string   `json:"split"`
	Partition  int      `json:"rank"`
	Partitions int      `json:"world"`
	Shard      int      `json:"shard"` // number within the partition
	Encoding   Encoding `json:"encoding"`
	Fields     Fields   `json:"fields,omitempty"` // fields, without the lengths of values
}

// footer is the fixed end of a shard file, as it lies there: where the sections lie, and their checksums.
type footer struct {
	RecordsOffset int64  // first record
	RecordsEnd    int64  // end of the last record, 8-aligned; SlackBytes zeros follow
	EntriesOffset int64  // = RecordsEnd + SlackBytes
	KeysOffset    int64  // = EntriesOffset + 40·Count
	KeysLength    int64  // 4·(Count+1) bytes of offsets, then the keys
	FileLength    int64  // length of the whole file, footer included
	Count         uint32 // samples
	HeaderCRC     uint32 // the same as after the header
	EntriesCRC    uint32
	KeysCRC       uint32
	_             [16]byte
	Version       Version
	CRC           uint32 // checksum of the footer's 84 bytes before it
	Magic         [8]byte
}

const (
	footerCRCAt   = 84
	footerMagicAt = 88
)

// encode returns a fixed structure's bytes. After crcAt bytes comes their checksum.
func encode(v any, crcAt int) []byte {
	p, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // v has no fixed size
	}
	binary.LittleEndian.PutUint32(p[crcAt:], crc32c.Checksum(p[:crcAt]))
	return p
}

// bytes returns the footer's 96 bytes and sets Magic and CRC.
func (f *footer) bytes() []byte {
	copy(f.Magic[:], magicEnd)
	p := encode(f, footerCRCAt)
	f.CRC = binary.LittleEndian.Uint32(p[footerCRCAt:])
	return p
}

// parseFooter reads the fields of a footer. The caller checks its magic and checksum.
func parseFooter(p []byte) (f footer) {
	if _, err := binary.Decode(p, binary.LittleEndian, &f); err != nil {
		panic(err) // p is too short
	}
	return f
}

// check returns the fault of the footer of a file of size bytes, or nil. After it, every section
// lies in the file, in order, and no length is negative.
func (f *footer) check(size int64) error {
	switch {
	case f.FileLength != size:
		return fmt.Errorf("the file has %d bytes, its footer says %d", size, f.FileLength)
	case f.Count > ShardSamplesMax:
		return fmt.Errorf("%d samples, and a shard has at most %d", f.Count, ShardSamplesMax)
	case f.RecordsOffset < prefixSize+4 || f.RecordsOffset > alignUp(prefixSize+headerBytesMax+4) ||
		f.RecordsOffset != alignUp(f.RecordsOffset):
		return fmt.Errorf("records cannot begin at byte %d", f.RecordsOffset)
	case f.RecordsEnd < f.RecordsOffset || f.RecordsEnd > size || f.RecordsEnd != alignUp(f.RecordsEnd):
		return fmt.Errorf("records that begin at byte %d cannot end at byte %d", f.RecordsOffset, f.RecordsEnd)
	case f.EntriesOffset != f.RecordsEnd+SlackBytes:
		return fmt.Errorf("entries at byte %d, expected at %d", f.EntriesOffset, f.RecordsEnd+SlackBytes)
	case f.KeysOffset != f.EntriesOffset+entrySize*int64(f.Count):
		return fmt.Errorf("keys at byte %d, expected at %d", f.KeysOffset, f.EntriesOffset+entrySize*int64(f.Count))
	case f.KeysLength < 4*(int64(f.Count)+1) || f.KeysLength > 4*(int64(f.Count)+1)+keyBlobBytesMax:
		return fmt.Errorf("%d samples cannot have a key section of %d bytes", f.Count, f.KeysLength)
	case alignUp(f.KeysOffset+f.KeysLength)+footerSize != size:
		return fmt.Errorf("keys end at byte %d, which leaves no footer at the end of %d bytes", f.KeysOffset+f.KeysLength, size)
	}
	return nil
}

// OrderHash is the sort key that shuffles a set when it is packed: samples are in the order of
// (OrderHash(seed, key), key), and a sample's position there is its index. It is the first 8 bytes, big-endian, of
// SHA-256("imgshard order v1" 0x00 seed-in-decimal 0x00 key), the same on every machine and whatever the source's layout.
func OrderHash(seed uint64, key string) uint64 {
	var scratch [128]byte
	b := append(scratch[:0], "imgshard order v1\x00"...)
	b = strconv.AppendUint(b, seed, 10)
	b = append(b, 0)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:8])
}

// partitionLen returns how many of n samples lie in a partition: those at the positions p with p mod partitions = partition.
func partitionLen(n, partitions, partition int) int {
	return (n - partition + partitions - 1) / partitions
}
