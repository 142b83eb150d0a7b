#!/usr/bin/env python3
"""What the hot loops of the kernels cost on processors that are not at hand, by llvm-mca's models of them.

Builds imgfeed and imgshard, takes the loops with vector instructions out of their machine code (a loop is what lies between a jump
backwards and its target, without the loops inside), and prints Markdown: for each loop and processor the cycles an iteration, and in
brackets the cycles for 64 bytes that it stores, bytes stored twice counted twice. Then whatever is microcoded there.

    python3 bench/mca/mca.py                        # all kernels for x86-64 (or --arch arm64), on the processors below
    python3 bench/mca/mca.py 'resample.*AVX2' --cpu znver3 --show

It needs llvm-mca and llvm-objdump, 19 or later for all processors (Debian 12: apt install llvm-19); Debian's llvm-14 has no model of
Zen 4 and the Neoverses and none of its own for Sapphire Rapids.

What a model leaves out, or has wrong: caches, mispredicted branches, legacy SSE among AVX (make check-sse finds that), lower clocks
under 512 bits. LLVM has VPERM2I128 for microcoded on Zen 2, as it was on Zen 1: VINSERTI128 stands in for it. Stores past the caches
(VMOVNTDQ) are far too slow in its model of Sapphire Rapids. A loop with branches in it is taken as if all of it ran at every iteration.
So compare a loop with itself: before and after a change, or between processors.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("imgfeed", "imgshard")
# The processors to ask about, by the level of kernels that they run.
PROCESSORS = {
    "amd64": {
        "AVX2": ("znver2", "znver3", "znver4", "skylake-avx512", "sapphirerapids"),
        "AVX512": ("znver4", "skylake-avx512", "sapphirerapids"),
    },
    "arm64": {"NEON": ("neoverse-n1", "neoverse-v1", "neoverse-v2")},
}
TRIPLE = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# Skylake-X has no VBMI: for the question what its ports would do with the kernels that need it, the assembler takes them all the same.
FEATURES = {
    "amd64": "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bitalg,+gfni,+vpclmulqdq",
    "arm64": "+crc,+aes,+neon",
}
ITERATIONS = 200
# Instructions that are known to be microcoded, whatever the model says: Agner Fog's tables and uops.info.
MICROCODED = {
    "znver2": re.compile(r"pdep|pext[lq]|vpgather"),
    "znver3": re.compile(r"vpgather"),
    "znver4": re.compile(r"vpgather|vpscatter|vpcompress\w+ .*\(.*\)$"),
    "skylake-avx512": re.compile(r"vpscatter|vpconflict"),
    "sapphirerapids": re.compile(r"vpscatter|vpconflict"),
}
# Beyond so many micro-operations an instruction comes from the microcode: two macro-operations on Zen, four on Intel's. The models of
# Zen give microcoded ones a latency of 100 instead.
UOPS_MAX = {"znver2": 2, "znver3": 2, "znver4": 2}
UOPS_MAX_DEFAULT = 4
LATENCY_MICROCODED = 100
# A loop around others counts if it has so many vector instructions of its own.
OUTER_MIN = 16


@dataclass
class Loop:
    """A loop: its name, and its instructions in the assembler's language."""

    function: str
    offset: int
    lines: list[str]
    stored: int  # bytes an iteration, to anywhere but the stack
    cycles: dict[str, float] = field(default_factory=dict)
    microcode: dict[str, set[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.function}+{self.offset:#x}"

    @property
    def calls(self) -> bool:
        """Whether a model of it would miss what it calls."""
        return any(line.startswith(("call", "bl ")) for line in self.lines)

    @property
    def level(self) -> str:
        """The level of kernels that the function's name, or else its registers, say."""
        for level in ("AVX512", "AVX2", "NEON"):
            if level in self.function:
                return level
        return "AVX512" if any("%zmm" in line for line in self.lines) else "AVX2"


def tool(name: str, version: str | None) -> str:
    """The newest of a tool of LLVM, or the one of a version."""
    for v in [version] if version else [str(v) for v in range(30, 13, -1)] + [None]:
        path = shutil.which(f"{name}-{v}" if v else name)
        if path:
            return path
    sys.exit(f"mca.py needs {name}: apt install llvm-19")


def build(arch: str, folder: str) -> list[Path]:
    """Both programs with their symbols, by the release of Go that go.mod names."""
    toolchain = re.search(r"(?m)^toolchain (\S+)", (ROOT / "go.mod").read_text())[1]
    environment = dict(os.environ, GOTOOLCHAIN=toolchain, GOEXPERIMENT="simd", CGO_ENABLED="0", GOOS="linux", GOARCH=arch)
    subprocess.run(
        ["go", "build", "-o", folder + "/", *(f"./cmd/{p}" for p in PROGRAMS)], cwd=ROOT, env=environment, check=True
    )
    return [Path(folder) / p for p in PROGRAMS]


def functions(objdump: str, program: Path):
    """Yields each function of this module: its name, and pairs of an address and an instruction."""
    command = [objdump, "-d", "--no-show-raw-insn", "--no-print-imm-hex", str(program)]
    listing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    name, code = "", []
    for line in listing.stdout:
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            if code:
                yield name, code
            name, code = head[1], []
        elif name.startswith("github.com/imgfeed/") and (m := re.match(r"\s*([0-9a-f]+):\s+(\S.*)$", line)):
            text = re.split(r"\s+(?:#|//) ", m[2])[0]
            code.append((int(m[1], 16), re.sub(r"\s*<.*>", "", text).replace("\t", " ").strip()))
    if code:
        yield name, code


VECTOR = {"amd64": re.compile(r"%[yz]mm\d"), "arm64": re.compile(r"\bv\d+\.|\bq\d+\b")}
BRANCH = {
    "amd64": re.compile(r"^(j\w+) (0x[0-9a-f]+)$"),
    "arm64": re.compile(r"^((?:b|b\.\w+|cbn?z \w+,|tbn?z \w+, #\d+,)) (0x[0-9a-f]+)$"),
}


def loops(arch: str, name: str, code: list[tuple[int, str]]):
    """Yields the loops of a function in which there are vectors, each without the loops inside it."""
    first = code[0][0]
    ends: dict[int, int] = {}
    for address, text in code:
        if (m := BRANCH[arch].match(text)) and first <= int(m[2], 16) <= address:
            start = int(m[2], 16)  # `continue` jumps to the same address as the loop's own end does
            ends[start] = max(address, ends.get(start, 0))
    for start, end in ends.items():
        inside = [(s, e) for s, e in ends.items() if start <= s and e <= end and (s, e) != (start, end)]
        body = [text for a, text in code if start <= a <= end and not any(s <= a <= e for s, e in inside)]
        vectors = sum(bool(VECTOR[arch].search(text)) for text in body)
        if vectors >= (OUTER_MIN if inside else 1):
            function = name.removeprefix("github.com/imgfeed/imgfeed/")
            function = re.sub(r"go\.shape\.\[(\d+)\]struct \{\}", r"\1", function)  # what a generic kernel was made for
            yield Loop(function, start - first, body, sum(stored(arch, text) for text in body))


def stored(arch: str, text: str) -> int:
    """The bytes that an instruction stores to anywhere but the stack."""
    if arch == "arm64":
        m = re.match(r"st(?:n?p|u?r) ([qdsxw])\d+,(?: [qdsxw]\d+,)? \[(\w+)", text)
        if m and m[2] != "sp":
            return {"q": 16, "d": 8, "x": 8, "s": 4, "w": 4}[m[1]] * (2 if text.startswith(("stp", "stnp")) else 1)
        m = re.match(r"st1 \{(.*?)\}.*\[(\w+)", text)
        return 16 * (m[1].count(",") + 1) if m and m[2] != "sp" and "][" not in text else 0
    m = re.match(r"v(?:mov\w+|extract\w+ \$\d+,|pextr\w+ \$\d+,|pmov\w+|pcompress\w+) %([xyz])mm\d+, [-\d]*\((%\w+).*\)", text)
    if not m or m[2] == "%rsp":
        return 0
    whole = {"x": 16, "y": 32, "z": 64}[m[1]]
    for part, size in (
        ("vmovq", 8),
        ("vmovd ", 4),
        ("extracti128", 16),
        ("32x4", 16),
        ("64x2", 16),
        ("64x4", 32),
        ("pextrq", 8),
        ("pextrd", 4),
    ):
        if part in text:
            return size
    return whole // 2 if re.match(r"vpmov\w*(wb|dw|qd) ", text) else whole


def assembly(arch: str, cpu: str, text: str) -> str:
    """An instruction as the assembler takes it: addresses elsewhere by a name."""
    if cpu == "znver2":
        text = re.sub(r"^vperm2i128 \$\d+, %y", "vinserti128 $1, %x", text)
    if arch == "arm64":
        return re.sub(r"(?<!#)0x[0-9a-f]+$", "elsewhere", text)
    return re.sub(r"^(j\w+|call\w*) 0x[0-9a-f]+$", r"\1 elsewhere", text)


def simulate(mca: str, arch: str, cpu: str, loop: Loop) -> None:
    """Fills in what llvm-mca says of a loop on a processor."""
    text = "\n".join(assembly(arch, cpu, line) for line in loop.lines) + "\n"
    run = subprocess.run(
        [
            mca,
            f"-mtriple={TRIPLE[arch]}",
            f"-mcpu={cpu}",
            f"-mattr={FEATURES[arch]}",
            f"-iterations={ITERATIONS}",
            "-instruction-info",
        ],
        input=text,
        capture_output=True,
        check=False,
        text=True,
    )
    total = re.search(r"Total Cycles:\s+(\d+)", run.stdout)
    if not total:
        print(f"{loop.name} on {cpu}: {run.stderr.strip().splitlines()[-3:]}", file=sys.stderr)
        return
    loop.cycles[cpu] = int(total[1]) / ITERATIONS
    found = loop.microcode.setdefault(cpu, set())
    known = MICROCODED.get(cpu)
    for line in run.stdout.split("Instructions:")[-1].splitlines():
        if m := re.match(r"\s(\d+)\s+(\d+)\s+[\d.-]+\s.*\t(\S+)\t?(.*)$", line):
            instruction = f"{m[3]} {m[4]}".strip()
            many = int(m[1]) > UOPS_MAX.get(cpu, UOPS_MAX_DEFAULT) or int(m[2]) == LATENCY_MICROCODED
            if many or (known and known.match(instruction)):
                found.add(f"`{instruction}`")


def cell(loop: Loop, cpu: str) -> str:
    if cpu not in loop.cycles:
        return "–"
    cycles = loop.cycles[cpu]
    return f"{cycles:.1f}" + (f" ({cycles * 64 / loop.stored:.1f})" if loop.stored else "")


def table(level: str, cpus: tuple[str, ...], found: list[Loop]) -> None:
    print(f"\n### {level}\n")
    print("| loop | instructions | bytes stored |" + "".join(f" {cpu} |" for cpu in cpus))
    print("|---|--:|--:|" + "--:|" * len(cpus))
    for loop in found:
        print(
            f"| `{loop.name}` | {len(loop.lines)} | {loop.stored or '–'} |" + "".join(f" {cell(loop, cpu)} |" for cpu in cpus)
        )
    lines = [
        f"- {cpu}, `{loop.name}`: {', '.join(sorted(loop.microcode[cpu]))}"
        for cpu in cpus
        for loop in found
        if loop.microcode.get(cpu)
    ]
    print("\nMicrocoded:" if lines else "\nNothing is microcoded.")
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", nargs="?", default="", help="a regular expression that functions' names are to match")
    parser.add_argument("--arch", choices=TRIPLE, default="amd64")
    parser.add_argument(
        "--cpu", action="append", help="a processor as llvm-mca names it, instead of the usual ones; may be given again"
    )
    parser.add_argument("--llvm", metavar="VERSION", help="take llvm-mca-VERSION instead of the newest there is")
    parser.add_argument("--show", action="store_true", help="print the loops' instructions too")
    options = parser.parse_args()
    mca, objdump = tool("llvm-mca", options.llvm), tool("llvm-objdump", options.llvm)
    found: dict[str, Loop] = {}
    with tempfile.TemporaryDirectory() as folder:
        for program in build(options.arch, folder):
            for name, code in functions(objdump, program):
                if re.search(options.function, name):
                    found.update((loop.name, loop) for loop in loops(options.arch, name, code))
    version = subprocess.run([mca, "--version"], capture_output=True, check=True, text=True).stdout
    number = re.search(r"version (\S+)", version)[1]
    print(f"Cycles an iteration and, in brackets, for 64 bytes stored; by llvm-mca {number}, {ITERATIONS} iterations.")
    for level, usual in PROCESSORS[options.arch].items():
        cpus = tuple(options.cpu) if options.cpu else usual
        of_level = sorted(
            (loop for loop in found.values() if loop.level == level), key=lambda loop: (loop.function, loop.offset)
        )
        left_out = [loop for loop in of_level if loop.calls]
        of_level = [loop for loop in of_level if not loop.calls]
        for loop in of_level:
            for cpu in cpus:
                simulate(mca, options.arch, cpu, loop)
        if of_level:
            table(level, cpus, of_level)
        if left_out:
            print("\nLeft out, as they call functions: " + ", ".join(f"`{loop.name}`" for loop in left_out))
        if options.show:
            for loop in of_level:
                print(f"\n`{loop.name}`\n\n    " + "\n    ".join(loop.lines))


if __name__ == "__main__":
    main()
