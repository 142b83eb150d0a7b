package alternation

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// A program is what an ELF file for x86-64 with a symbol table holds.
type program struct {
	functions []*function // by address
	// pointed: addresses that stand somewhere in the data. Those inside a function are what its jump tables hold; one that is a function's
	// own makes that a function which is called through a value.
	pointed map[uint64]bool
}

type function struct {
	name    string
	address uint64
	code    []instruction
	offsets []uint32       // of each instruction, from address
	index   map[uint32]int // of the instruction at an offset
	wide    bool           // has vector instructions of 256 or 512 bits
}

func (f *function) at(i int) uint64 { return f.address + uint64(f.offsets[i]) }

// load reads and decodes all functions of a program.
func load(path string) (*program, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%s is for %v", path, file.Machine)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: build it without -ldflags -s", path, err)
	}
	p := &program{pointed: make(map[uint64]bool)}
	contents := make([][]byte, len(file.Sections))
	for i, section := range file.Sections {
		if section.Type != elf.SHT_PROGBITS || section.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if contents[i], err = section.Data(); err != nil {
			return nil, err
		}
	}
	text := file.Section(".text")
	for i, section := range file.Sections {
		if section == text {
			continue
		}
		for b := contents[i]; len(b) >= 8; b = b[8:] {
			if a := binary.LittleEndian.Uint64(b); a >= text.Addr && a < text.Addr+text.Size {
				p.pointed[a] = true
			}
		}
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 || int(s.Section) >= len(contents) {
			continue
		}
		from := s.Value - file.Sections[s.Section].Addr
		f, err := decodeFunction(s.Name, s.Value, contents[s.Section][from:from+s.Size])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		p.functions = append(p.functions, f)
	}
	slices.SortFunc(p.functions, func(a, b *function) int { return int(int64(a.address) - int64(b.address)) })
	p.functions = slices.CompactFunc(p.functions, func(a, b *function) bool { return a.address == b.address })
	if len(p.functions) < 1000 {
		return nil, fmt.Errorf("%s: only %d functions found", path, len(p.functions))
	}
	for _, f := range p.functions {
		for i, in := range f.code {
			if in.kind == ripAddress {
				p.pointed[f.at(i)+uint64(in.target)] = true
			}
		}
	}
	return p, nil
}

// decodeFunction fails unless the instructions fill the function exactly: a length that is wrong is found out there, at the latest.
func decodeFunction(name string, address uint64, code []byte) (*function, error) {
	f := &function{name: name, address: address, index: make(map[uint32]int)}
	for at := 0; at < len(code); {
		in, ok := decode(code[at:])
		if !ok {
			return nil, fmt.Errorf("%s+%#x: no instruction: % x", name, at, code[at:min(at+15, len(code))])
		}
		f.index[uint32(at)] = len(f.code)
		f.code = append(f.code, in)
		f.offsets = append(f.offsets, uint32(at))
		f.wide = f.wide || in.wide
		at += in.length
	}
	return f, nil
}

// starting returns the function that begins at an address, nil if none does.
func (p *program) starting(address uint64) *function {
	i := sort.Search(len(p.functions), func(i int) bool { return p.functions[i].address >= address })
	if i == len(p.functions) || p.functions[i].address != address {
		return nil
	}
	return p.functions[i]
}
