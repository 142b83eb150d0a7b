// Package alternation holds the programs to one rule: no legacy-encoded SSE instruction where the upper halves of vector registers may
// hold something.
//
// Such an instruction leaves bits 128 and up of its register as they are. On Zen 2, Zen 3 and Intel's processors that costs tens to
// hundreds of cycles each time, or ties loops' iterations together; Zen 4 and 5 do not mind, so that no measurement there shows it. Go's compiler writes the legacy
// form for scalar floats, zeroes and copies of 16 bytes, and its assembler for MOVQ, MOVOU and MOVUPS to an X register.
//
// The test builds imgfeed and imgshard for x86-64 with the kernels, on whatever machine it runs, and reads them: instruction_test.go
// finds the instructions' lengths, binary_test.go the functions, flow_test.go follows the upper halves from the functions that use them.
//
//	go test ./internal/alternation -v -binaries bin/imgfeed     examines this one, built with its symbols, and lists what is excepted too
package alternation

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var binaries = flag.String("binaries", "", "programs to examine, at commas, instead of those of this tree")

// An exception is what may be found in a function, and why. A name with a star at its end stands for all that begin so.
type exception struct {
	function string
	rule     rule
	reason   string
}

const separate = "code for short and long operands on ways of their own, VZEROUPPER before each return; none of the SSE is reached with upper halves in use"

const parquet = "reads the tables of some datasets while they are packed, a column at a time; it never runs where sets are served"

var exceptions = []exception{
	{"cmpbody", mixes, separate},
	{"countbody", mixes, separate},
	{"indexbody", mixes, separate},
	{"indexbytebody", mixes, separate},
	{"memeqbody", mixes, separate},
	{"runtime.memmove", mixes, separate},
	{"runtime.memclrNoHeapPointers", mixes, separate},
	{"hash/crc32.ieeeCLMUL.abi0", mixes, separate},
	{"github.com/pierrec/lz4/v4/internal/lz4block.decodeBlock.abi0", mixes, separate},
	{"vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Open.abi0", mixes, separate},
	{"vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Seal.abi0", mixes, separate},
	{"vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Open.abi0", leaves, "Go's own, on one of its ways; TLS is not between reading and batches"},
	{"github.com/parquet-go/*", mixes, parquet},
	{"github.com/parquet-go/*", leaves, parquet},
	{"internal/runtime/gc/scan.expandAVX512_*", leaves, "called by scanSpanPackedAVX512 alone, through a table; it clears after them"},
	{"runtime.asyncPreempt.abi0", mixes, "saves and restores all registers of a goroutine that a signal has interrupted: at most once in 10 ms"},
	{"runtime.asyncPreempt.abi0", calls, "as above"},
	{"runtime.asyncPreempt.abi0", leaves, "gives the registers back as they were"},
}

const own = "github.com/imgfeed/imgfeed/"

func (e exception) covers(f finding) bool {
	start, many := strings.CutSuffix(e.function, "*")
	return f.rule == e.rule && (f.function == e.function || many && strings.HasPrefix(f.function, start))
}

// rare: calls that are made so seldom that they don't count. A function called with little stack left has it moved before its first
// instruction; storing a pointer calls gcWriteBarrier only while garbage is looked for, and what it does by SSE once in 512 pointers.
func rare(name string) bool {
	return strings.HasPrefix(name, "runtime.morestack") || strings.HasPrefix(name, "runtime.gcWriteBarrier")
}

// programs returns the paths of what is to be examined: what the flag names, or else both programs, built for x86-64 with the kernels.
func programs(t *testing.T) []string {
	t.Helper()
	if *binaries != "" {
		return strings.Split(*binaries, ",")
	}
	noteSources(t)
	dir := t.TempDir() + string(filepath.Separator)
	build := exec.Command(testenv.Go.Path(t), "build", "-o", dir, "./cmd/imgfeed", "./cmd/imgshard")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=simd", "GOTOOLCHAIN="+kernel.Toolchain)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return []string{dir + "imgfeed", dir + "imgshard"}
}

// noteSources looks at every source file: what the go command builds here it would not see otherwise, and take an old result of this test for a new one.
func noteSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); err == nil && (ext == ".go" || ext == ".s" || ext == ".mod") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPrograms is for the quick tests, too: the packages are compiled for others, and linking and reading both programs takes about five
// seconds of CPU time.
func TestPrograms(t *testing.T) {
	var list []*program
	paths := programs(t)
	for _, path := range paths {
		p, err := load(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	t.Run("no alternation", func(t *testing.T) { noAlternation(t, list) })
	if testing.Short() {
		return // objdump reads one program for longer than all else takes
	}
	t.Run("objdump", func(t *testing.T) { againstObjdump(t, list[len(list)-1], paths[len(list)-1]) })
}

func noAlternation(t *testing.T, list []*program) {
	seen := make(map[exception]bool)
	told := make(map[finding]bool)
	for _, p := range list {
		kernels := 0
		for _, f := range p.functions {
			if f.wide && strings.HasPrefix(f.name, own) {
				kernels++
			}
		}
		if kernels < 20 {
			t.Errorf("%d functions of this module have vectors of 256 bits: was the program built with the kernels?", kernels)
		}
		for _, f := range p.analyse(rare) {
			if !told[f] {
				told[f] = true
				judge(t, f, seen)
			}
		}
	}
	for _, e := range exceptions {
		if !seen[e] && *binaries == "" {
			t.Errorf("%s is excepted (%v), and has nothing to be excepted for: take it out of the list", e.function, e.rule)
		}
	}
}

func judge(t *testing.T, f finding, seen map[exception]bool) {
	t.Helper()
	for _, e := range exceptions {
		if !e.covers(f) {
			continue
		}
		seen[e] = true
		t.Logf("excepted: %s %v: %s: %s", f.function, f.rule, f.detail, e.reason)
		return
	}
	t.Errorf("%s %v: %s", strings.TrimPrefix(f.function, own), f.rule, f.detail)
}

// TestLengths: instructions of each encoding and each way to say an operand.
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		code string
		want instruction
	}{
		{"90", instruction{}},
		{"4889e5", instruction{}},                                     // mov rbp, rsp
		{"48b88877665544332211", instruction{}},                       // mov rax, imm64
		{"66b83412", instruction{}},                                   // mov ax, imm16
		{"f6042408", instruction{}},                                   // test byte [rsp], 8
		{"f61c24", instruction{}},                                     // neg byte [rsp]
		{"66f7c73412", instruction{}},                                 // test di, imm16
		{"488d842480000000", instruction{}},                           // lea rax, [rsp+128]
		{"488d0510000000", instruction{kind: ripAddress, target: 23}}, // lea rax, [rip+16]
		{"488b04c500104000", instruction{}},                           // mov rax, [rax*8+0x401000]
		{"e8fbffffff", instruction{kind: call, target: 0}},            // call itself
		{"75fe", instruction{kind: branch, target: 0}},                // jne itself
		{"0f8400010000", instruction{kind: branch, target: 262}},      // je
		{"eb10", instruction{kind: jump, target: 18}},                 // jmp
		{"ff24c500104000", instruction{kind: jumpFar}},                // jmp [rax*8+0x401000]
		{"ffd1", instruction{kind: callFar}},                          // call rcx
		{"c3", instruction{kind: ret}},                                // ret
		{"0f0b", instruction{kind: stop}},                             // ud2
		{"f2480f38f1c1", instruction{}},                               // crc32 rax, rcx
		{"0f1f840000000000", instruction{}},                           // nop
		{"f30fb8c1", instruction{}},                                   // popcnt eax, ecx
		{"c4e2f3f7c1", instruction{}},                                 // shrx, which is VEX without vectors
		{"66480f6ef2", instruction{legacySSE: true}},                  // movq xmm6, rdx
		{"440f117c2410", instruction{legacySSE: true}},                // movups [rsp+16], xmm15
		{"0f57c0", instruction{legacySSE: true}},                      // xorps xmm0, xmm0
		{"f2480f2ac1", instruction{legacySSE: true}},                  // cvtsi2sd xmm0, rcx
		{"660f3a0fc108", instruction{legacySSE: true}},                // palignr xmm0, xmm1, 8
		{"660f3800c1", instruction{legacySSE: true}},                  // pshufb xmm0, xmm1
		{"660f72f005", instruction{legacySSE: true}},                  // pslld xmm0, 5
		{"0f6ec0", instruction{}},                                     // movd mm0, eax
		{"c4e1f96ec2", instruction{}},                                 // vmovq xmm0, rdx
		{"c5f877", instruction{clears: true}},                         // vzeroupper
		{"c5fc77", instruction{clears: true}},                         // vzeroall
		{"c5f5fe448f10", instruction{wide: true}},                     // vpaddd ymm0, ymm1, [rdi+rcx*4+16]
		{"c5fe6f0510000000", instruction{wide: true}},                 // vmovdqu ymm0, [rip+16]
		{"c5fd72f105", instruction{wide: true}},                       // vpslld ymm0, ymm1, 5
		{"c4e37d39c101", instruction{wide: true}},                     // vextracti128 xmm1, ymm0, 1
		{"c5f96fc1", instruction{}},                                   // vmovdqa xmm0, xmm1
		{"c5f541c2", instruction{}},                                   // kandb k0, k1, k2
		{"62f17c48104001", instruction{wide: true}},                   // vmovups zmm0, [rax+64]
		{"62f1fe486f8080010000", instruction{wide: true}},             // vmovdqu64 zmm0, [rax+384]
		{"62f3f548ce0440f0", instruction{wide: true}},                 // vgf2p8affineqb zmm0, zmm1, [rax+rax*2], imm8
		{"62f1fd086ec1", instruction{}},                               // vmovq xmm0, rcx
		{"62f17d0872f105", instruction{}},                             // vpslld xmm0, xmm1, 5
		{"62f17d2872f105", instruction{wide: true}},                   // vpslld ymm0, ymm1, 5
	} {
		code, err := hex.DecodeString(c.code)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decode(append(code, 0x90, 0x90))
		c.want.length = len(code)
		if got.kind == plain {
			got.target = 0
		}
		if !ok || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.code, got, ok, c.want)
		}
		for n := range code {
			if in, ok := decode(code[:n]); ok && in.length > n {
				t.Errorf("%s: cut to %d bytes it is said to have %d", c.code, n, in.length)
			}
		}
	}
}

// TestRules: what is found in functions made for it.
func TestRules(t *testing.T) {
	const (
		add, xorps, clear  = "c5f5fec0", "0f57c0", "c5f877"
		callG, back        = "e8", "c3"
		ifEqual, forget    = "7404", "90909090"
		callRCX, jumpTable = "ffd1", "ffe0"
	)
	for _, c := range []struct {
		name, f, g string // f calls g, which is at 0x2000; h calls f, and uses no wide vectors
		want       string
	}{
		{"nothing", add + clear + back, back, ""},
		{"not cleared", add + back, back, "f leaves"},
		{"cleared on one way only", add + ifEqual + clear + "90" + back, back, "f leaves"},
		{"cleared on both ways", add + "7404" + clear + back + clear + back, back, ""},
		{"SSE among AVX", add + xorps + clear + back, back, "f mixes"},
		{"SSE after it is cleared", add + clear + xorps + back, back, "f mixes"},
		{"SSE called", add + callG + clear + back, xorps + back, "f calls"},
		{"SSE called after it is cleared", add + clear + callG + back, xorps + back, ""},
		{"SSE called that clears before", add + callG + back, clear + xorps + back, ""},
		{"a part that leaves it to its caller", add + callG + clear + back, add + back, ""},
		{"a part that its caller forgets", callG + add + clear + callG + back, add + back, "f leaves"},
		{"a call through a value", add + callRCX + clear + back, back, "f calls"},
		{"a loop", forget + add + "75f6" + clear + back, back, ""},
		{"a loop that comes back in use", xorps + add + "75f7" + clear + back, back, "f mixes"},
		{"a jump to nowhere known", add + jumpTable, back, "f leaves"},
	} {
		p := assemble(t, map[uint64]string{0x1000: c.f, 0x2000: c.g, 0x3000: callG + back}, map[uint64]uint64{0x1000: 0x2000, 0x3000: 0x1000})
		var got []string
		for _, f := range p.analyse(rare) {
			got = append(got, f.function+" "+f.rule.String())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// assemble makes a program of functions in hexadecimal digits: f, g, h at their addresses, where e8 alone is a call of what calls says.
func assemble(t *testing.T, functions map[uint64]string, callees map[uint64]uint64) *program {
	t.Helper()
	p := &program{pointed: make(map[uint64]bool)}
	for i, address := range []uint64{0x1000, 0x2000, 0x3000} {
		text := functions[address]
		for {
			before, after, found := strings.Cut(text, "e8")
			if !found {
				break
			}
			distance := uint32(callees[address] - (address + uint64(len(before)/2) + 5))
			text = before + "E8" + hex.EncodeToString([]byte{byte(distance), byte(distance >> 8), byte(distance >> 16), byte(distance >> 24)}) + after
		}
		code, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := decodeFunction(string(rune('f'+i)), address, code)
		if err != nil {
			t.Fatal(err)
		}
		p.functions = append(p.functions, f)
	}
	return p
}

// againstObjdump compares every instruction of a program with what GNU objdump reads there: where it begins, and what it concerns.
func againstObjdump(t *testing.T, p *program, path string) {
	objdump := testenv.Objdump.Path(t)
	if runtime.GOARCH != "amd64" {
		t.Skip(testenv.Objdump, ", for x86-64")
	}
	listing, err := exec.Command(objdump, "-d", "--no-show-raw-insn", "-w", "-j", ".text", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := compare(t, p, listing)
	if compared < 100000 {
		t.Errorf("%d instructions compared", compared)
	}
	t.Logf("%d instructions compared", compared)
}

// compare counts the instructions of a listing that lie in functions, and reports those that were read otherwise.
func compare(t *testing.T, p *program, listing []byte) (compared int) {
	lines := bufio.NewScanner(bytes.NewReader(listing))
	var f *function
	wrong := 0
	for next := 0; lines.Scan() && wrong < 20; {
		digits, text, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		address, err := strconv.ParseUint(digits, 16, 64)
		if !ok || err != nil {
			continue
		}
		if g := p.starting(address); g != nil {
			if f != nil && next > 0 && next != len(f.code) {
				t.Errorf("%s: %d instructions, objdump has %d", f.name, len(f.code), next)
				wrong++
			}
			f, next = g, 0
		}
		if f == nil || address > f.at(len(f.code)-1) || strings.HasPrefix(f.name, "crypto/internal/boring/sig.") {
			continue // padding, and a mark for those who look for it, which is no code
		}
		mnemonic := strings.Fields(text)[0]
		in, at := f.code[min(next, len(f.code)-1)], f.at(min(next, len(f.code)-1))
		wide := strings.Contains(text, "%ymm") || strings.Contains(text, "%zmm")
		legacy := strings.Contains(text, "%xmm") && !strings.HasPrefix(mnemonic, "v")
		if at != address || in.wide != wide || in.legacySSE != legacy {
			t.Errorf("%s+%#x: %+v, objdump at +%#x: %s", f.name, at-f.address, in, address-f.address, text)
			wrong++
		}
		next++
		compared++
	}
	return compared
}
