package jpeg

import (
	"bytes"
	"slices"
)

// Markers, by the names of table B.1.
const (
	markerSOF0  = 0xc0
	markerSOF1  = 0xc1
	markerSOF2  = 0xc2
	markerDHT   = 0xc4
	markerSOF15 = 0xcf
	markerDAC   = 0xcc
	markerRST0  = 0xd0
	markerRST7  = 0xd7
	markerSOI   = 0xd8
	markerEOI   = 0xd9
	markerSOS   = 0xda
	markerDQT   = 0xdb
	markerDNL   = 0xdc
	markerDRI   = 0xdd
	markerDHP   = 0xde
	markerEXP   = 0xdf
	markerAPP0  = 0xe0
	markerAPP14 = 0xee
	markerAPP15 = 0xef
	markerCOM   = 0xfe
	markerTEM   = 0x01
)

// A parser reads the marker segments of one file, and holds what they define.
type parser struct {
	data []byte
	pos  int // position of the next marker segment, or of a scan's entropy-coded data

	frame
	seenJFIF       bool
	adobeTransform int // transform in an Adobe APP14 segment; -1 without one

	quantTables     [4]quantTable
	specs           [2][4]huffmanSpec // DC, AC
	restartInterval int               // MCUs; 0 if there are no restarts

	scanHeader scanHeader
	eoi        bool
	cut        bool // the file ended where a marker or a segment was expected
}

// A quantTable has the quantisation steps in natural order, as 16-bit factors for the IDCT.
type quantTable struct {
	present bool
	steps   [64]int16
}

// A scanHeader is the content of an SOS segment.
type scanHeader struct {
	components []int // indices into frame.components
	storage    [4]int
	tables     [4][2]uint8 // DC and AC table slots, for each of components
	ss, se     int         // spectral selection: first and last coefficient
	ah, al     uint        // successive approximation: bit position of the scan before and of this one
}

func (p *parser) config() Config {
	return Config{Width: p.width, Height: p.height, Components: len(p.components), Progressive: p.progressive}
}

// open reads a file's segments up to the first scan, or up to the frame header.
func (p *parser) open(data []byte, headerOnly bool) error {
	*p = parser{data: data, pos: 2, adobeTransform: -1}
	if len(data) < 3 || data[0] != 0xff || data[1] != markerSOI || data[2] != 0xff {
		return formatError(0, "no SOI marker at the start: not a JPEG file")
	}
	return p.advance(headerOnly)
}

// nextMarker finds the next marker and moves past it. Like libjpeg it skips all other data.
func (p *parser) nextMarker() (byte, error) {
	for {
		i := bytes.IndexByte(p.data[p.pos:], 0xff)
		if i < 0 {
			break
		}
		p.pos += i + 1
		for p.pos < len(p.data) && p.data[p.pos] == 0xff {
			p.pos++
		}
		if p.pos >= len(p.data) {
			break
		}
		p.pos++
		if m := p.data[p.pos-1]; m != 0 {
			return m, nil
		}
	}
	p.cut = true
	return 0, formatError(len(p.data), "file ends where a marker was expected: it is truncated")
}

// segment returns the payload of a marker's segment, which is at pos, and moves past it.
func (p *parser) segment(m byte) ([]byte, error) {
	if len(p.data)-p.pos < 2 {
		p.cut = true
		return nil, formatError(len(p.data), "file ends in the length of marker ff%02x: it is truncated", m)
	}
	length := int(p.data[p.pos])<<8 | int(p.data[p.pos+1])
	if m == markerDNL || m >= markerAPP0 { // libjpeg does not check their lengths
		length = max(length, 2)
	}
	if length < 2 {
		return nil, formatError(p.pos, "marker ff%02x has the length %d, below 2", m, length)
	}
	if len(p.data)-p.pos < length {
		p.cut = true
		return nil, formatError(len(p.data), "file ends in the segment of marker ff%02x, which has %d bytes: it is truncated", m, length)
	}
	s := p.data[p.pos+2 : p.pos+length]
	p.pos += length
	return s, nil
}

// advance reads segments up to the next SOS (then pos is at its entropy-coded data) or EOI (then eoi is set). If
// headerOnly is set it stops after the frame header.
func (p *parser) advance(headerOnly bool) error {
	for {
		m, err := p.nextMarker()
		if err != nil {
			return err
		}
		start := p.pos
		switch {
		case m == markerEOI:
			if p.components == nil || p.scanHeader.components == nil {
				return formatError(start, "EOI before the first scan: there is no image")
			}
			p.eoi = true
			return nil
		case m == markerSOI:
			return formatError(start, "a second SOI marker")
		case m >= markerRST0 && m <= markerRST7, m == markerTEM && p.scanHeader.components != nil: // earlier, Pillow refuses TEM
			continue
		case m == markerDHP || m == markerEXP:
			return &UnsupportedError{Msg: "hierarchical coding"}
		case m < markerSOF0 || m > markerAPP15 && m != markerCOM:
			return formatError(start, "marker ff%02x, which means nothing", m)
		}
		s, err := p.segment(m)
		if err != nil {
			return err
		}
		switch {
		case m == markerDHT:
			err = p.parseDHT(s, start)
		case m >= markerSOF0 && m <= markerSOF15 && m != markerDAC:
			if err = p.parseSOF(m, s, start); err == nil && headerOnly {
				return nil
			}
		case m == markerDQT:
			err = p.parseDQT(s, start)
		case m == markerDRI:
			if len(s) != 2 {
				return formatError(start, "DRI has %d bytes, want 2", len(s))
			}
			p.restartInterval = int(s[0])<<8 | int(s[1])
		case m == markerDAC:
			err = checkDAC(s, start)
		case m == markerAPP0:
			p.seenJFIF = p.seenJFIF || len(s) >= 14 && string(s[:5]) == "JFIF\x00"
		case m == markerAPP14:
			if len(s) >= 12 && string(s[:5]) == "Adobe" {
				p.adobeTransform = int(s[11])
			}
		case m == markerSOS:
			return p.parseSOS(s, start)
		}
		if err != nil {
			return err
		}
	}
}

// checkDAC refuses the same arithmetic-coding conditions as libjpeg, although Huffman-coded files do not use them.
func checkDAC(s []byte, start int) error {
	if len(s)%2 != 0 {
		return formatError(start, "DAC has %d bytes, want an even number", len(s))
	}
	for ; len(s) > 0; s = s[2:] {
		if s[0] > 31 || s[0] < 16 && s[1]&15 > s[1]>>4 {
			return formatError(start, "DAC sets table %d to %#x", s[0], s[1])
		}
	}
	return nil
}

func (p *parser) parseDQT(s []byte, start int) error {
	for len(s) > 0 {
		slot, wide := s[0]&15, s[0]>>4 != 0
		size := 64
		if wide {
			size = 128
		}
		if slot > 3 || len(s) < 1+size {
			return formatError(start, "DQT for slot %d with %d bytes, want a slot up to 3 and %d bytes", slot, len(s)-1, size)
		}
		t := &p.quantTables[slot]
		t.present = true
		for k, n := range zigzag {
			if wide {
				t.steps[n] = int16(uint16(s[1+2*k])<<8 | uint16(s[2+2*k]))
			} else {
				t.steps[n] = int16(s[1+k])
			}
		}
		s = s[1+size:]
	}
	return nil
}

func (p *parser) parseDHT(s []byte, start int) error {
	for len(s) > 0 {
		if len(s) < 17 || s[0] > 0x1f || s[0]&15 > 3 {
			return formatError(start, "DHT does not start with a table's slot and 16 counts")
		}
		spec := &p.specs[s[0]>>4][s[0]&3]
		total := 0
		for n := 1; n <= 16; n++ {
			spec.counts[n] = s[n]
			total += int(s[n])
		}
		if total > 256 || total > len(s)-17 {
			spec.present = false
			return formatError(start, "DHT counts %d symbols, of which there are %d", total, len(s)-17)
		}
		copy(spec.symbols[:], s[17:17+total])
		clear(spec.symbols[total:])
		spec.present, spec.built = true, false
		s = s[17+total:]
	}
	return nil
}

func (p *parser) parseSOS(s []byte, start int) error {
	if p.components == nil {
		return formatError(start, "SOS before the frame header")
	}
	if len(s) < 1 || s[0] < 1 || s[0] > 4 || len(s) != 4+2*int(s[0]) {
		return formatError(start, "SOS has %d bytes, which does not fit its component count", len(s))
	}
	h := &p.scanHeader
	count := int(s[0])
	h.components = h.storage[:0]
	for i := range count {
		c := p.findComponent(s[1+2*i])
		if c < 0 {
			return formatError(start, "SOS names the component %d, which is not there, comes out of order or is named twice", s[1+2*i])
		}
		h.components = append(h.components, c)
		h.tables[i] = [2]uint8{s[2+2*i] >> 4, s[2+2*i] & 15}
	}
	s = s[1+2*count:]
	h.ss, h.se, h.ah, h.al = int(s[0]), int(s[1]), uint(s[2]>>4), uint(s[2]&15)
	if err := p.checkScan(start); err != nil {
		return err
	}
	if !p.progressive {
		p.assumeStandardTables()
	}
	return p.latchQuantTables(start)
}

// findComponent returns the scan's next component by its id, or -1. Like get_sos of libjpeg it skips as many components
// of the frame as the scan already has, so most scans in another order than the frame's are refused.
func (p *parser) findComponent(id byte) int {
	chosen := p.scanHeader.components
	for c := len(chosen); c < len(p.components); c++ {
		if p.components[c].id != id {
			continue
		}
		if slices.Contains(chosen, c) {
			return -1
		}
		return c
	}
	return -1
}

// checkScan makes libjpeg's checks at the start of a scan.
func (p *parser) checkScan(start int) error {
	h := &p.scanHeader
	if len(h.components) > 1 {
		blocks := 0
		for _, c := range h.components {
			blocks += p.components[c].h * p.components[c].v
		}
		if blocks > mcuBlocksMax {
			return formatError(start, "MCU of %d blocks, more than %d", blocks, mcuBlocksMax)
		}
	}
	if p.progressive {
		dc := h.ss == 0 && h.se == 0
		ac := h.ss >= 1 && h.ss <= h.se && h.se <= 63 && len(h.components) == 1
		if !dc && !ac || h.al > 13 || h.ah != 0 && h.ah != h.al+1 {
			return formatError(start, "progressive scan of coefficients %d to %d, bits %d to %d, in %d components",
				h.ss, h.se, h.ah, h.al, len(h.components))
		}
	}
	return nil
}

// assumeStandardTables fills slots 0 and 1 like libjpeg, for a sequential file without tables.
func (p *parser) assumeStandardTables() {
	for class := range p.specs {
		for slot := range 2 {
			if !p.specs[class][slot].present {
				p.specs[class][slot].setStandard(class, slot)
			}
		}
	}
}

// latchQuantTables assigns the current quantisation table of its slot to each of the scan's components, unless an earlier scan has.
func (p *parser) latchQuantTables(start int) error {
	for _, i := range p.scanHeader.components {
		c := &p.components[i]
		if c.hasQuant {
			continue
		}
		if c.quantSlot > 3 || !p.quantTables[c.quantSlot].present {
			return formatError(start, "component %d uses the quantisation table %d, which is missing", c.id, c.quantSlot)
		}
		c.hasQuant = true
		c.steps = p.quantTables[c.quantSlot].steps
	}
	return nil
}
