package jpeg

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"io"
	"iter"

	"github.com/klauspost/compress/flate"
)

// A file split so that coefficients can replace its entropy-coded data:
//
//	header  SOI and the segments before the scan that decoding needs, byte for byte: DQT, SOFn, SOS, and APP0 and APP14
//	        if they determine the colour model.
//	rest    everything else, deflated (RFC 1951) with restDictionary.
//
// Inflated, the rest is
//
//	padding   1 byte: 1 or 0, the bits that fill the last byte of each restart segment.
//	gaps      for each segment of the header: the number of bytes of the file between the previous one (the first: SOI) and
//	          this one, as a varint, and these bytes, such as DHT, DRI, COM and APPn.
//	trailer   the data after the entropy-coded data.
//
// The codes and the restart interval are read from the restored beginning of the file. docs/format/coefficients.md specifies both parts.

// restDictionary is the preset dictionary for deflating rests. It is part of the format (docs/format/coefficients.md)
// and must never change, because inflating needs exactly the same bytes. It has the data that many files share: the
// beginnings of segments, and the gaps of files with the tables of annex K.3, once in a single DHT and once in four. It
// also has Hewlett-Packard's ICC profile of sRGB: one photograph in five has it, and it does not deflate well.
//
//go:embed dictionary.bin
var restDictionary []byte

// restMax is the size of the largest rest, inflated. A file with more beside its scan is not split.
const restMax = 1 << 24

// parts are buffers that splitting and joining keep from one file to the next.
type parts struct {
	data       []byte // ReadCoefficients' file; nil after an error
	begin, end int    // bounds of its entropy-coded data
	pad        byte
	plain      []byte
	deflate    *flate.Writer
	inflate    io.ReadCloser
	scan       scanWriter
}

// noteEnd records the bounds of a scan for AppendSplit, after it has been read to its end.
func (d *Decoder) noteEnd(s *sequentialScan) error {
	remaining := s.limit - s.reader.position(d.scan.bytes)
	mask := byte(1)<<(remaining&7) - 1
	padding := d.scan.bytes[s.limit/8-1] & mask
	switch {
	case remaining > 7 || s.segment != len(d.scan.segments)-1:
		return formatError(d.scan.end, "entropy-coded data after the last MCU")
	case padding != 0 && padding != mask:
		return formatError(d.scan.end, "padding bits that are neither all ones nor all zeros")
	}
	if d.parts == nil {
		d.parts = new(parts)
	}
	p := d.parts
	p.data, p.begin, p.end, p.pad = d.data, d.scan.begin, d.scan.end, 1
	if padding != mask {
		p.pad = 0
	}
	return nil
}

// segments yields the marker and the bounds of each marker segment after SOI.
func segments(data []byte) iter.Seq2[byte, [2]int] {
	return func(yield func(byte, [2]int) bool) {
		p := parser{data: data, pos: 2}
		for p.pos < len(data) {
			marker, err := p.nextMarker()
			if marker >= markerRST0 && marker <= markerRST7 || marker == markerTEM {
				continue
			}
			start := p.pos - 2
			if err == nil {
				_, err = p.segment(marker)
			}
			if err != nil || !yield(marker, [2]int{start, p.pos}) {
				return
			}
		}
	}
}

// AppendSplit appends the two parts of the file that ReadCoefficients read last to header and rest. That call must have
// succeeded, and the file must not have changed since.
func (d *Decoder) AppendSplit(header, rest []byte) (newHeader, newRest []byte, err error) {
	if d.parts == nil || d.parts.data == nil {
		panic("jpeg: AppendSplit without a successful ReadCoefficients before")
	}
	p := d.parts
	start := len(header)
	for _, colors := range []bool{false, true} {
		header = append(header[:start], p.data[:2]...)
		p.plain = append(p.plain[:0], p.pad)
		end := 2
		for marker, at := range segments(p.data[:p.begin]) {
			switch {
			case marker == markerDQT || marker == markerSOS || marker == markerSOF0 || marker == markerSOF1:
			case colors && (marker == markerAPP0 || marker == markerAPP14):
			default:
				continue
			}
			p.plain = binary.AppendUvarint(p.plain, uint64(at[0]-end))
			p.plain = append(p.plain, p.data[end:at[0]]...)
			header = append(header, p.data[at[0]:at[1]]...)
			end = at[1]
		}
		var q parser
		if q.open(header[start:], false) == nil && q.model() == d.colors {
			break
		}
	}
	p.plain = append(p.plain, p.data[p.end:]...)
	if len(p.plain) > restMax {
		return header[:start], rest, formatError(p.begin, "%d bytes beside the entropy-coded data", len(p.plain))
	}
	buffer := bytes.NewBuffer(rest)
	if p.deflate == nil {
		p.deflate, err = flate.NewWriterDict(buffer, flate.BestCompression, restDictionary)
	} else {
		p.deflate.ResetDict(buffer, restDictionary)
	}
	if err == nil {
		_, err = p.deflate.Write(p.plain)
	}
	if err == nil {
		err = p.deflate.Close()
	}
	return header, buffer.Bytes(), err
}

func errRest(reason string) error {
	return formatError(0, "the rest of the file is damaged: %s", reason)
}

func (p *parts) inflateRest(rest []byte) ([]byte, error) {
	source := bytes.NewReader(rest)
	if p.inflate == nil {
		p.inflate = flate.NewReaderDict(source, restDictionary)
	} else if err := p.inflate.(flate.Resetter).Reset(source, restDictionary); err != nil {
		return nil, err
	}
	buffer := bytes.NewBuffer(p.plain[:0])
	n, err := buffer.ReadFrom(io.LimitReader(p.inflate, restMax+1))
	p.plain = buffer.Bytes()
	switch {
	case err != nil:
		return nil, errRest(err.Error())
	case n > restMax:
		return nil, errRest("it is too long")
	case n == 0 || p.plain[0] > 1:
		return nil, errRest("unknown padding")
	case source.Len() > 0:
		return nil, errRest("bytes after its end")
	}
	return p.plain, nil
}

// AppendFile appends the original file of header and rest to dst, after a [Decoder.ResetCoefficients] with that header.
// It reads all batches of the source.
//
// The entropy-coded data are those of an encoder that does not code zeros after a block's last coefficient. Comparing
// the restored file shows whether it was coded so.
func (d *Decoder) AppendFile(dst, rest []byte) ([]byte, error) {
	if !d.ready || d.source == nil {
		panic("jpeg: AppendFile without a successful ResetCoefficients before")
	}
	d.ready = false
	if d.parts == nil {
		d.parts = new(parts)
	}
	p := d.parts
	p.data = nil
	plain, err := p.inflateRest(rest)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	pad := uint64(plain[0])
	file, trailer, err := joinHeader(dst, d.data, plain[1:])
	if err == nil {
		err = d.parseJoined(file[start:])
	}
	if err == nil {
		err = p.scan.reset(&d.parser, file)
	}
	if err == nil {
		err = d.writeScan(&p.scan, pad)
	}
	file = append(p.scan.dst, trailer...)
	p.scan.dst = nil
	if err != nil {
		return dst, err
	}
	return file, nil
}

// joinHeader appends a file's beginning, the header with the gaps filled, and also returns the trailer.
func joinHeader(dst, header, plain []byte) (file, trailer []byte, err error) {
	dst = append(dst, header[:2]...)
	end := 2
	for _, at := range segments(header) {
		gap, n := binary.Uvarint(plain)
		if n <= 0 || gap > uint64(len(plain)-n) {
			return nil, nil, errRest("a gap is longer than it")
		}
		dst = append(dst, plain[n:n+int(gap)]...)
		dst = append(dst, header[end:at[1]]...)
		plain, end = plain[n+int(gap):], at[1]
	}
	return dst, plain, nil
}

// parseJoined parses the beginning of a file up to the scan, and checks that its blocks agree with the header.
func (d *Decoder) parseJoined(data []byte) error {
	before := d.Layout()
	if err := d.parser.open(data, false); err != nil {
		return err
	}
	d.streams = !d.progressive && len(d.scanHeader.components) == len(d.components)
	if err := d.checkKind(); err != nil {
		return err
	}
	var s sequentialScan
	d.planBatch(&s)
	if d.pos != len(data) || d.Layout() != before {
		return errRest("its segments do not belong to the header")
	}
	return nil
}

func (d *Decoder) writeScan(w *scanWriter, pad uint64) error {
	l := d.Layout()
	for y, mcu := 0, 0; y < l.MCUsHigh; y++ {
		if err := d.source.Row(y, 0, l.MCUsWide); err != nil {
			return err
		}
		for x := 0; x < l.MCUsWide; x += batchMCUs {
			if err := d.nextBatch(l.Quads); err != nil {
				return err
			}
			for i, n := 0, min(batchMCUs, l.MCUsWide-x); i < n; {
				count := n - i
				if r := d.restartInterval; r > 0 {
					if mcu > 0 && mcu%r == 0 {
						w.finish(pad)
						w.dst = append(w.dst, 0xff, markerRST0+byte(mcu/r-1)&7)
					}
					count = min(count, r-mcu%r)
				}
				w.write(&d.kernels, d.blocks[i*l.Quads:(i+count)*l.Quads], d.extents[:l.Quads])
				mcu += count
				i += count
			}
			clear(d.batch[:l.Quads])
		}
		if w.used&noCode != 0 {
			return errRest("the Huffman tables lack a code")
		}
	}
	w.finish(pad)
	return nil
}
