package shard

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/imgfeed/imgfeed/internal/crc32c"
)

// writableFile is a file of a set that is written. Close makes it durable, and abort gives it up. Tests substitute failing ones.
type writableFile interface {
	io.WriteCloser
	abort()
}

// fileWriter writes one shard file from front to back. After an error it is of no more use.
type fileWriter struct {
	file    writableFile
	buf     *bufio.Writer
	sha     hash.Hash
	offset  int64
	cut     int64  // bytes before offset that the shard has and an index's file lacks
	table   []byte // the images' locations; nil: no index
	footer  footer
	entries []byte
	offsets []byte // offsets of the keys, u32 each
	keys    []byte
}

const writeBufferBytes = 256 << 10

var zeros [SlackBytes]byte

// newFileWriter starts a shard file with its header.
func newFileWriter(f writableFile, h header) (*fileWriter, error) {
	w := &fileWriter{file: f, sha: sha256.New(), buf: bufio.NewWriterSize(f, writeBufferBytes)}
	text, err := encodeJSON(h, "")
	if err != nil {
		return nil, fmt.Errorf("shard: encode header: %w", err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if len(text) > headerBytesMax {
		return nil, tooLarge("bytes of the encoding's parameters", int64(len(text)), headerBytesMax)
	}
	p := append(make([]byte, 0, prefixSize+len(text)+4), magicStart...)
	p = binary.LittleEndian.AppendUint32(p, uint32(h.Fields.version()))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(text)))
	p = append(p, text...)
	w.footer = footer{HeaderCRC: crc32c.Checksum(p), Version: h.Fields.version()}
	p = binary.LittleEndian.AppendUint32(p, w.footer.HeaderCRC)
	w.write(p)
	if err := w.align(); err != nil {
		return nil, err
	}
	w.footer.RecordsOffset = w.offset
	w.offsets = binary.LittleEndian.AppendUint32(w.offsets, 0)
	return w, nil
}

// write appends p to the file. The buffer keeps its first error, so the last write or Flush returns that of any before it.
func (w *fileWriter) write(p []byte) error {
	w.sha.Write(p)
	w.offset += int64(len(p))
	_, err := w.buf.Write(p)
	return err
}

// at returns the offset in the shard.
func (w *fileWriter) at() int64 { return w.offset + w.cut }

// align pads the shard with zeros to a multiple of 8.
func (w *fileWriter) align() error { return w.write(zeros[:alignUp(w.at())-w.at()]) }

func (s *Sample) length() int64 {
	return int64(s.ImageBytes()) + int64(len(s.Aux)) + int64(len(s.Fields))
}

// ImageBytes returns the length of the image, wherever it lies.
func (s *Sample) ImageBytes() int {
	if s.Outside != nil {
		return s.Outside.Length
	}
	return len(s.Image)
}

// checkSample refuses values that the format cannot hold.
func checkSample(s *Sample) error {
	length := s.length()
	switch {
	case s.Key == "":
		return fmt.Errorf("shard: a sample without a key")
	case len(s.Key) > keyBytesMax:
		return tooLarge(fmt.Sprintf("bytes of the key %.60q…", s.Key), int64(len(s.Key)), keyBytesMax)
	case length > RecordBytesMax:
		return tooLarge("bytes of "+s.Key, length, RecordBytesMax)
	case s.Label < -1:
		return fmt.Errorf("shard: %s: label %d", s.Key, s.Label)
	case s.Width < 1 || s.Height < 1:
		return fmt.Errorf("shard: %s: %d×%d pixels", s.Key, s.Width, s.Height)
	case s.Width > math.MaxInt32 || s.Height > math.MaxInt32:
		return tooLarge("width or height of "+s.Key, int64(max(s.Width, s.Height)), math.MaxInt32)
	}
	return nil
}

// append adds a sample that checkSample has passed, and returns the CRC of its record.
func (w *fileWriter) append(s *Sample) (crc uint32, err error) {
	sum := crc32c.Checksum(s.Image)
	if o := s.Outside; o != nil { // the shard has room for the image, and the table says where it lies
		p := imageLocation{at: alignIndexed(w.at()), rest: w.offset, length: uint32(o.Length), object: uint32(o.Object), offset: o.Offset}
		w.table, _ = binary.Append(w.table, binary.LittleEndian, &p) // The size of an entry is fixed.
		sum, w.cut = o.Checksum, p.end()-w.offset
	}
	e := Entry{
		Offset: w.at() - int64(s.ImageBytes()-len(s.Image)), ImageLength: uint32(s.ImageBytes()), AuxLength: uint32(len(s.Aux)),
		Label: s.Label, Width: int32(s.Width), Height: int32(s.Height), Format: s.Format, FieldsLength: uint32(len(s.Fields)),
	}
	e.Checksum = crc32c.Update(crc32c.Update(sum, s.Aux), s.Fields)
	for _, p := range [][]byte{s.Image, s.Aux, s.Fields} {
		err = w.write(p)
	}
	if s.Outside == nil {
		err = w.align()
	}
	w.entries, _ = binary.Append(w.entries, binary.LittleEndian, &e) // The size of an entry is fixed.
	w.keys = append(w.keys, s.Key...)
	w.offsets = binary.LittleEndian.AppendUint32(w.offsets, uint32(len(w.keys)))
	w.footer.Count++
	return e.Checksum, err
}

// full reports whether the file has no room for s, given the bytes and samples that a shard should have. The first sample always has room.
func (w *fileWriter) full(s *Sample, bytesMax int64, samplesMax int) bool {
	return w.footer.Count > 0 && (w.at()+s.length() > bytesMax || int(w.footer.Count) >= samplesMax ||
		len(w.keys)+len(s.Key) > keyBlobBytesMax)
}

// finish writes the index and the footer and returns the manifest's entry; the file is not yet synced.
func (w *fileWriter) finish() (ShardInfo, error) {
	f, tail := &w.footer, w.offset
	if w.table != nil {
		w.cut = alignIndexed(w.at()) - tail
	}
	f.RecordsEnd = w.at()
	f.EntriesOffset = f.RecordsEnd + SlackBytes
	f.EntriesCRC = crc32c.Checksum(w.entries)
	f.KeysOffset = f.EntriesOffset + int64(len(w.entries))
	f.KeysCRC = crc32c.Update(crc32c.Checksum(w.offsets), w.keys)
	f.KeysLength = int64(len(w.offsets) + len(w.keys))
	f.FileLength = alignUp(f.KeysOffset+f.KeysLength) + footerSize
	for _, p := range [][]byte{zeros[:], w.entries, w.offsets, w.keys} {
		w.write(p)
	}
	w.align()
	w.write(f.bytes())
	info := ShardInfo{Samples: int(f.Count), Bytes: w.at(), Footer: fmt.Sprintf("%08x", f.CRC)}
	if w.table != nil {
		t := indexTrailer{
			Version: version1, Count: f.Count, Length: w.at(), Records: f.RecordsOffset, Entries: f.RecordsEnd, Tail: tail,
			TableCRC: crc32c.Checksum(w.table),
		}
		copy(t.Magic[:], magicIndex)
		w.write(append(w.table, encode(t, trailerCRCAt)...))
		info.Index = &ShardIndex{Bytes: w.offset, Tail: tail}
	}
	info.SHA256 = hex.EncodeToString(w.sha.Sum(nil))
	return info, w.buf.Flush()
}
