package jpeg

import (
	"encoding/binary"
	"math"
	"sync"
)

// restDictionary is the preset dictionary of rests. It is part of the format: a rest can only be inflated with the very bytes that
// it was deflated with, so they must never change. It has what many files share: the profile of sRGB, the beginnings of
// segments, and the gaps of a file with the tables of annex K.3, all four in one DHT and each in its own.
var restDictionary = sync.OnceValue(func() []byte {
	b := append([]byte("\xff\xe2\x0cXICC_PROFILE\x00\x01\x01"), profileSRGB()...)
	b = append(b, "\xff\xe1http://ns.adobe.com/xap/1.0/\x00<?xpacket begin='\xef\xbb\xbf' id='W5M0MpCehiHzreSzNTczkc9d'?>\n<x:xmpmeta xmlns:x='adobe:ns:meta/'>"+
		"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n<?xpacket end='w'?>"+
		"\xff\xe1Exif\x00\x00MM\x00*\x00\x00\x00\x08\xff\xe1Exif\x00\x00II*\x00\x08\x00\x00\x00\x012005:01:01 12:00:00\x00"+
		"Adobe Photoshop CS Windows\x00\xff\xedPhotoshop 3.0\x008BIM\x04\x04\x00\x00\x00\x00\x00\x008BIM\x03\xed\x00\x00\x00\x00\x00\x10\x00H\x00\x00\x00\x01\x00\x01\x00H\x00\x00"+
		"\xff\xfe\x00\x0cAppleMark\n\xff\xfe\x00\x3cCREATOR: gd-jpeg v1.0 (using IJG JPEG v62), quality = 90\n\xff\xee\x00\x0eAdobe\x00d\x80\x00\x00\x00\x01"...)
	tables := [][2]int{{0, 0}, {1, 0}, {0, 1}, {1, 1}}
	for _, t := range tables {
		b = appendStandardTable(b, t[0], t[1])
	}
	b = append(b, "\x01\x12\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00\xb0\x03"...)
	for _, t := range tables {
		b = append(b, 0xff, markerDHT, 0, []byte{0x1f, 0xb5}[t[0]])
		b = appendStandardTable(b, t[0], t[1])
	}
	return append(b, "\xff\xd9\x01\x12\xff\xe0\x00\x10JFIF\x00\x01\x01\x01\x00H\x00H\x00\x00\x00\x00"...)
})

// appendStandardTable appends a table as it stands in a DHT segment.
func appendStandardTable(b []byte, class, slot int) []byte {
	t := &standardTables[class][slot]
	return append(append(append(b, byte(class<<4|slot)), t.counts...), t.symbols...)
}

// profileSRGB makes Hewlett-Packard's ICC profile of sRGB, which one photograph in five carries and which does not deflate well: three
// kilobytes, most of them the curve of 1,024 points, which is the formula of IEC 61966-2-1.
func profileSRGB() []byte {
	xyz := func(x, y, z uint32) []byte {
		b := append([]byte("XYZ "), 0, 0, 0, 0)
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, x), y), z)
	}
	text := func(s string, size int) []byte { // in ASCII, in Unicode none, and for the Macintosh
		n := byte(len(s) + 1)
		b := append(append([]byte("desc\x00\x00\x00\x00\x00\x00\x00"), n), s...)
		b = append(append(b, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...), n)
		b = append(b, s...)
		return append(b, make([]byte, size-len(b))...)
	}
	curve := []byte("curv\x00\x00\x00\x00\x00\x00\x04\x00")
	for i := range 1024 {
		x := float64(i) / 1023
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		curve = binary.BigEndian.AppendUint16(curve, uint16(x*65535+0.5))
	}
	tags := []struct {
		name string
		data []byte
	}{
		{"cprt", []byte("text\x00\x00\x00\x00Copyright (c) 1998 Hewlett-Packard Company\x00")},
		{"desc", text("sRGB IEC61966-2.1", 108)},
		{"wtpt", xyz(0xf351, 0x10000, 0x116cc)},
		{"bkpt", xyz(0, 0, 0)},
		{"rXYZ", xyz(0x6fa2, 0x38f5, 0x390)},
		{"gXYZ", xyz(0x6299, 0xb785, 0x18da)},
		{"bXYZ", xyz(0x24a0, 0xf84, 0xb6cf)},
		{"dmnd", text("IEC http://www.iec.ch", 112)},
		{"dmdd", text("IEC 61966-2.1 Default RGB colour space - sRGB", 136)},
		{"vued", text("Reference Viewing Condition in IEC61966-2.1", 134)},
		{"view", []byte("view\x00\x00\x00\x00\x00\x13\xa4\xfe\x00\x14_.\x00\x10\xcf\x14\x00\x03\xed\xcc\x00\x04\x13\x0b\x00\x03\\\x9e\x00\x00\x00\x01")},
		{"lumi", xyz(0x4c0956, 0x500000, 0x571fe7)},
		{"meas", []byte("meas\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x8f\x00\x00\x00\x02")},
		{"tech", []byte("sig \x00\x00\x00\x00CRT ")},
		{"rTRC", curve}, {"gTRC", nil}, {"bTRC", nil},
	}
	head := []byte("\x00\x00\x0cHLino\x02\x10\x00\x00mntrRGB XYZ \x07\xce\x00\x02\x00\x09\x00\x06\x001\x00\x00acspMSFT\x00\x00\x00\x00IEC sRGB")
	head = append(append(head, make([]byte, 68-len(head))...), "\x00\x00\xf6\xd6\x00\x01\x00\x00\x00\x00\xd3-HP  "...)
	head = append(append(head, make([]byte, 128-len(head))...), 0, 0, 0, byte(len(tags)))
	var body []byte
	at, size := 0, 0
	for _, t := range tags {
		if t.data != nil {
			at, size = 132+12*len(tags)+len(body), len(t.data)
			body = append(append(body, t.data...), make([]byte, -size&3)...)
		}
		head = append(head, t.name...)
		head = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(head, uint32(at)), uint32(size))
	}
	return append(head, body...)
}
