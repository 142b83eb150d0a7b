package alternation

import "encoding/binary"

// An instruction of x86-64, as far as this package asks for it: where it goes on, and which registers' halves it concerns.
type instruction struct {
	length int
	kind   kind
	target int64 // of a direct branch or call, relative to the instruction's first byte
	// legacySSE: encoded without VEX or EVEX, and concerning an XMM register. Such an instruction keeps the upper halves as they are,
	// which is what costs where they hold something.
	legacySSE bool
	wide      bool // a vector instruction of 256 or 512 bits
	clears    bool // VZEROUPPER or VZEROALL
}

type kind uint8

const (
	plain      kind = iota
	branch          // goes on below or at the target
	jump            // goes on at the target
	call            // calls the target
	callFar         // calls what a register or memory holds
	jumpFar         // goes on where a register or memory says
	ret             // returns
	stop            // does not go on: int3, ud2, hlt
	ripAddress      // LEA of an address relative to the instruction: target says which
)

// The maps of opcodes, numbered as VEX and EVEX number them.
const (
	map1  = 0 // one byte
	map0F = 1
	map38 = 2 // 0F 38
	map3A = 3 // 0F 3A
)

// decode reads the instruction at the start of code. Its lengths are those of the manuals' opcode maps (Intel SDM volume 2, appendix A, and 2.3
// and 2.7 for VEX and EVEX); ok is false for what no compiler writes for 64 bits, and for a truncated instruction.
//
//	c5 f5 fe 44 8f 10    VEX, pp = 66, map 0F, 256 bits; opcode FE; ModRM 44 asks for a SIB byte (8f) and a displacement of 8 bits (10)
func decode(code []byte) (in instruction, ok bool) {
	d := decoder{code: code}
	defer func() {
		if recover() != nil { // read past the end
			ok = false
		}
	}()
	d.prefixes()
	switch b := d.code[d.at]; {
	case b == 0xc4 || b == 0xc5 || b == 0x62:
		d.vector(b)
	default:
		d.legacy()
	}
	d.in.length = d.at
	if d.in.kind == branch || d.in.kind == jump || d.in.kind == call || d.in.kind == ripAddress {
		d.in.target += int64(d.at)
	}
	return d.in, !d.bad && d.at <= len(code) && d.at <= 15
}

type decoder struct {
	code   []byte
	at     int
	in     instruction
	bad    bool
	narrow bool // 66: operands of 16 bits, or a mandatory prefix
	short  bool // 67: addresses of 32 bits
	rep    byte // F2 or F3
	wide   bool // REX.W
	modrm  byte
}

func (d *decoder) next() byte {
	b := d.code[d.at]
	d.at++
	return b
}

func (d *decoder) prefixes() {
	for {
		switch b := d.code[d.at]; b {
		case 0x66:
			d.narrow = true
		case 0x67:
			d.short = true
		case 0xf2, 0xf3:
			d.rep = b
		case 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		default:
			if b&0xf0 == 0x40 {
				d.wide = b&8 != 0
				d.at++
			}
			return
		}
		d.at++
	}
}

// vector decodes what begins with VEX (C4, C5) or EVEX (62).
func (d *decoder) vector(first byte) {
	d.at++
	var opcodes byte
	var wide, rounds bool
	switch first {
	case 0xc5:
		p := d.next()
		opcodes, wide = map0F, p&4 != 0
	case 0xc4:
		p0, p1 := d.next(), d.next()
		opcodes, wide = p0&0x1f, p1&4 != 0
	case 0x62:
		opcodes = d.next() & 7
		d.at++
		p2 := d.next()
		wide, rounds = p2&0x60 != 0, p2&0x10 != 0
	}
	op := d.next()
	if first != 0x62 && opcodes == map0F && op == 0x77 {
		d.in.clears = true
		return
	}
	d.operands()
	switch {
	case opcodes == map3A, opcodes == map0F && immediateIn0F(op):
		d.at++
	case opcodes == 0 || opcodes > 6 || opcodes == 4:
		d.bad = true
	}
	// Instructions on mask registers use the bit of 256 bits for their own ends.
	masks := first != 0x62 && opcodes == map0F && (op&0xf0 == 0x40 || op&0xf0 == 0x90)
	// Of registers alone, EVEX's broadcast bit means 512 bits and a way to round.
	d.in.wide = wide && !masks || rounds && d.modrm>>6 == 3
}

// immediateIn0F: opcodes of the map 0F that have an immediate byte, in SSE, VEX and EVEX alike.
func immediateIn0F(op byte) bool {
	return op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6
}

// operands passes the ModRM byte, the SIB byte and the displacement. EVEX's scaled displacement is one byte too.
func (d *decoder) operands() {
	d.modrm = d.next()
	mod, rm := d.modrm>>6, d.modrm&7
	if mod == 3 {
		return
	}
	if rm == 4 {
		if base := d.next() & 7; base == 5 && mod == 0 {
			d.at += 4
		}
	} else if rm == 5 && mod == 0 {
		d.in.target = d.signed(4)
	}
	switch mod {
	case 1:
		d.at++
	case 2:
		d.at += 4
	}
}

// signed reads an immediate or a displacement of so many bytes.
func (d *decoder) signed(bytes int) int64 {
	b := d.code[d.at:]
	d.at += bytes
	switch bytes {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}

// immediate is the size of an operand that is 16 or 32 bits wide.
func (d *decoder) immediate() int {
	if d.narrow && !d.wide {
		return 2
	}
	return 4
}

func (d *decoder) legacy() {
	op := d.next()
	if op != 0x0f {
		d.oneByte(op)
		return
	}
	switch op = d.next(); op {
	case 0x38:
		op = d.next()
		d.operands()
		d.in.legacySSE = d.sse38(op)
	case 0x3a:
		op = d.next()
		d.operands()
		d.at++
		d.in.legacySSE = d.narrow && op != 0xf0 || op == 0xcc // SHA1RNDS4 has no prefix
	default:
		d.twoBytes(op)
	}
}

func (d *decoder) sse38(op byte) bool {
	switch {
	case op >= 0xc8 && op <= 0xcd: // SHA
		return true
	case op >= 0x80 && op <= 0x82 || op >= 0xf0: // INVEPT, MOVBE, CRC32, ADX, MOVDIR
		return false
	}
	return d.narrow
}

func (d *decoder) twoBytes(op byte) {
	switch {
	case op >= 0x80 && op <= 0x8f:
		d.in.kind, d.in.target = branch, d.signed(4)
		return
	case op == 0x0b:
		d.in.kind = stop
		return
	case op >= 0x05 && op <= 0x09, op == 0x0e, op >= 0x30 && op <= 0x37, op == 0x77,
		op >= 0xa0 && op <= 0xa2, op >= 0xa8 && op <= 0xaa, op >= 0xc8 && op <= 0xcf:
		return // no operands
	}
	d.operands()
	switch {
	case immediateIn0F(op), op == 0xa4, op == 0xac, op == 0xba, op == 0x0f:
		d.at++
	case op == 0x78 && (d.narrow || d.rep == 0xf2): // EXTRQ, INSERTQ
		d.at += 2
	}
	d.in.legacySSE = d.sse0F(op)
}

// sse0F tells SSE from MMX (no prefix) and from what concerns general registers only.
func (d *decoder) sse0F(op byte) bool {
	prefixed := d.narrow || d.rep != 0
	switch {
	case op >= 0x10 && op <= 0x17, op >= 0x28 && op <= 0x2f, op >= 0x50 && op <= 0x5f, op == 0xc2, op == 0xc6:
		return true
	case op >= 0x60 && op <= 0x7f, op >= 0xd0 && op <= 0xfe, op == 0xc4 || op == 0xc5:
		return prefixed
	}
	return false
}

func (d *decoder) oneByte(op byte) {
	switch {
	case op < 0x40:
		switch op & 7 {
		case 4:
			d.at++
		case 5:
			d.at += d.immediate()
		case 6, 7:
			d.bad = true
		default:
			d.operands()
		}
	case op >= 0x70 && op <= 0x7f, op >= 0xe0 && op <= 0xe3:
		d.in.kind, d.in.target = branch, d.signed(1)
	case op == 0xe8:
		d.in.kind, d.in.target = call, d.signed(4)
	case op == 0xe9:
		d.in.kind, d.in.target = jump, d.signed(4)
	case op == 0xeb:
		d.in.kind, d.in.target = jump, d.signed(1)
	case op == 0xc3, op == 0xcb, op == 0xcf:
		d.in.kind = ret
	case op == 0xc2, op == 0xca:
		d.in.kind = ret
		d.at += 2
	case op == 0xcc, op == 0xf4:
		d.in.kind = stop
	default:
		d.oneByteOperands(op)
	}
}

func (d *decoder) oneByteOperands(op byte) {
	switch op {
	case 0x60, 0x61, 0x62, 0x82, 0x9a, 0xc4, 0xc5, 0xce, 0xd4, 0xd5, 0xd6, 0xea:
		d.bad = true
	case 0x68, 0xa9:
		d.at += d.immediate()
	case 0x6a, 0xa8, 0xcd, 0xe4, 0xe5, 0xe6, 0xe7, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7:
		d.at++
	case 0x69, 0x81, 0xc7:
		d.operands()
		d.at += d.immediate()
	case 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6:
		d.operands()
		d.at++
	case 0x8d:
		d.operands()
		if d.modrm&0xc7 == 0x05 {
			d.in.kind = ripAddress
		}
	case 0x63, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8e, 0x8f, 0xd0, 0xd1, 0xd2, 0xd3,
		0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xfe:
		d.operands()
	case 0xa0, 0xa1, 0xa2, 0xa3: // an address in the instruction
		if d.at += 8; d.short {
			d.at -= 4
		}
	case 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf:
		if d.at += d.immediate(); d.wide {
			d.at += 4
		}
	case 0xc8:
		d.at += 3
	case 0xf6, 0xf7:
		d.operands()
		if d.modrm>>3&7 < 2 { // TEST
			if op == 0xf6 {
				d.at++
			} else {
				d.at += d.immediate()
			}
		}
	case 0xff:
		d.operands()
		switch d.modrm >> 3 & 7 {
		case 2, 3:
			d.in.kind = callFar
		case 4, 5:
			d.in.kind = jumpFar
		}
	}
}
