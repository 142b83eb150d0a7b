#!/usr/bin/env python3
"""Fails where legacy SSE meets AVX in a program for x86-64: `make check-sse` runs it over imgfeed.

An SSE instruction without the VEX or EVEX encoding leaves bits 128 and up of its register as they are. While the upper halves
of vector registers hold something, that costs tens to hundreds of cycles on Zen 2, Zen 3 and Intel's processors. Zen 4 and 5
do not mind, so no measurement there shows it. Go's compiler
writes the legacy form for scalar floats, zeroes and 16-byte copies.

The script reads the listing of `objdump -d` and follows the upper halves through each function that has vectors of 256 or 512
bits, and through what it calls. They are dirty after such an instruction, clean after VZEROUPPER and VZEROALL, and where ways
join, both are possible. Three rules:

    mixes   a function has wide vectors and legacy SSE.
    calls   a function calls, with dirty halves, code that comes to legacy SSE, or code that is called through a value.
    leaves  a function may return with dirty halves to a function without wide vectors.

    scripts/check_sse.py PROGRAM...      programs with their symbols: built without -ldflags -s
"""

import array
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

OWN = "github.com/imgfeed/imgfeed/"
SEPARATE = "short and long operands have code of their own, and VZEROUPPER before each return: no SSE comes after AVX"
PARQUET = "reads tables while a dataset is packed, a column at a time; it never runs while sets are served"
PREEMPT = "saves and restores all registers of a goroutine that a signal interrupts: at most once in 10 ms"
# What may be found in which functions, and why. A name with a star at its end stands for all names that begin so.
EXCEPTIONS = {
    ("cmpbody", "mixes"): SEPARATE,
    ("countbody", "mixes"): SEPARATE,
    ("indexbody", "mixes"): SEPARATE,
    ("indexbytebody", "mixes"): SEPARATE,
    ("memeqbody", "mixes"): SEPARATE,
    ("runtime.memmove", "mixes"): SEPARATE,
    ("runtime.memclrNoHeapPointers", "mixes"): SEPARATE,
    ("hash/crc32.ieeeCLMUL.abi0", "mixes"): SEPARATE,
    ("github.com/pierrec/lz4/v4/internal/lz4block.decodeBlock.abi0", "mixes"): SEPARATE,
    ("vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Open.abi0", "mixes"): SEPARATE,
    ("vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Seal.abi0", "mixes"): SEPARATE,
    (
        "vendor/golang.org/x/crypto/chacha20poly1305.chacha20Poly1305Open.abi0",
        "leaves",
    ): "Go's own, for TLS",
    ("github.com/parquet-go/*", "mixes"): PARQUET,
    ("github.com/parquet-go/*", "leaves"): PARQUET,
    (
        "internal/runtime/gc/scan.expandAVX512_*",
        "leaves",
    ): "scanSpanPackedAVX512 alone calls it, and clears after it",
    ("runtime.asyncPreempt.abi0", "mixes"): PREEMPT,
    ("runtime.asyncPreempt.abi0", "calls"): PREEMPT,
    ("runtime.asyncPreempt.abi0", "leaves"): PREEMPT,
}
# Rare calls: the stack grows before a function's first instruction, and the write barrier runs during garbage collection.
RARE = ("runtime.morestack", "runtime.gcWriteBarrier")
NEVER_RETURN = ("runtime.panic", "runtime.goPanic", "runtime.gopanic", "runtime.throw", "runtime.fatal")
ENDS = ("int3", "ud2", "hlt")
CLEAN, DIRTY = 1, 2  # a state is a set of these bits

HEADER = re.compile(r"([0-9a-f]+) <(.*)>:$")
WIDE = re.compile(r"%[yz]mm")
TARGET = re.compile(r"(?:^| )([0-9a-f]+) <")


class Function:
    """A function of the listing: the index of each instruction by its address, and its text."""

    def __init__(self, name: str, lines: list[str]):
        self.name = name
        self.code = [(int(address, 16), text.strip()) for address, _, text in (line.partition(":") for line in lines)]
        self.index = {address: i for i, (address, _) in enumerate(self.code)}
        self.wide = any(WIDE.search(text) for _, text in self.code)


class Program:
    """The functions of a listing, and the addresses inside them that data or LEA hold: jump tables, and functions as values."""

    def __init__(self, listing: Iterable[str], pointed: set[int]):
        self.lines: dict[int, tuple[str, list[str]]] = {}
        self.functions: dict[int, Function] = {}
        self.pointed = set(pointed)
        self.wide: list[int] = []
        self.callers: dict[int, set[int]] = {}
        # By function and the state at its entry: the state at its returns, and a way to legacy SSE with dirty halves.
        self.summaries: dict[tuple[int, int], dict] = {}
        at, lines = 0, []
        for line in listing:
            if header := HEADER.match(line):
                at, lines = int(header[1], 16), []
                self.lines[at] = (header[2], lines)
            elif line.startswith(" "):
                lines.append(line)
                if "mm" in line and WIDE.search(line) and self.wide[-1:] != [at]:
                    self.wide.append(at)
                if "<" in line and (target := TARGET.search(line)):
                    self._refer(at, line, int(target[1], 16))

    def _refer(self, at: int, line: str, to: int) -> None:
        if "# " not in line:
            if to != at or "call" in line:
                self.callers.setdefault(to, set()).add(at)
        elif "lea" in line:
            self.pointed.add(to)

    def _function(self, address: int) -> Function:
        if address not in self.functions:
            self.functions[address] = Function(*self.lines[address])
        return self.functions[address]

    def _summary(self, address: int, state: int) -> dict:
        return self.summaries.setdefault((address, state), {"exit": 0, "sse": ""})

    def _follow(self, address: int, entered: int) -> tuple[list[int], list[str]]:
        """Follows one function until nothing changes, and puts what comes of it into its summary.

        Returns the state at each instruction, and what is wrong with calls.
        """
        f, summary = self._function(address), self._summary(address, entered)
        states, notes, work = [0] * len(f.code), [], [0]
        states[0] = entered
        while work:
            i = work.pop()
            at, text = f.code[i]
            state, offset = states[i], f"+{at - address:#x}"
            if text.startswith(("vzeroupper", "vzeroall")):
                state = CLEAN
            elif _legacy(text) and state & DIRTY:
                summary["sse"] = summary["sse"] or f.name + offset
            elif WIDE.search(text):
                state = DIRTY
            following, left, note = self._step(f, i, state)
            summary["exit"] |= left
            if note:
                summary["sse"] = summary["sse"] or f"{f.name}{offset} {note}"
                notes.append(f"{offset} {note}")
            for j, after in following:
                if j < len(states) and states[j] | after != states[j]:
                    states[j] |= after
                    work.append(j)
        return states, list(dict.fromkeys(notes))

    def _step(self, f: Function, i: int, state: int) -> tuple[list[tuple[int, int]], int, str]:
        """Says where an instruction goes on and in which states, its state on leaving the function, and what is wrong."""
        mnemonic, *operands = f.code[i][1].split(None, 1) or ["nop"]
        target = TARGET.search(operands[0]) if operands else None
        to = int(target[1], 16) if target else 0
        following = [(i + 1, state)]
        if mnemonic.startswith("call"):
            if not target:
                return [(i + 1, CLEAN)], 0, "calls through a value" if state & DIRTY else ""
            after, note = self._enter(f, to, state)
            return [(i + 1, after)] if after else [], 0, note
        if mnemonic.startswith("j"):
            if mnemonic == "jmp":
                following = []
            if target and to in f.index:
                return [*following, (f.index[to], state)], 0, ""
            if target:
                return following, *self._enter(f, to, state)
            table = [(j, state) for at, j in f.index.items() if j > 0 and at in self.pointed]
            return table, 0 if table else state, ""
        if mnemonic.startswith("ret"):
            return [], state, ""
        return [] if mnemonic in ENDS else following, 0, ""

    def _enter(self, f: Function, target: int, state: int) -> tuple[int, str]:
        """Returns the state after a call of target, 0 if it does not return, and what is wrong with the call."""
        if target not in self.lines:  # the middle of a function, as duffzero and duffcopy are entered
            return state, f"calls {target:#x}, the middle of a function" if state & DIRTY else ""
        name = self.lines[target][0]
        if name.startswith((*NEVER_RETURN, *RARE)):
            return (state if name.startswith(RARE) else 0), ""
        after, note = 0, ""
        if state & CLEAN:  # a function that leaves halves dirty to one without wide vectors is found itself
            after |= self._summary(target, CLEAN)["exit"] if f.wide and self._function(target).wide else CLEAN
        if state & DIRTY:
            summary = self._summary(target, DIRTY)
            after |= summary["exit"]
            note = summary["sse"] and f"comes to legacy SSE: {summary['sse']}"
        return after, note

    def findings(self) -> list[tuple[str, str, str]]:
        """Returns function, rule and detail of each finding."""
        for address in self.wide:
            self._summary(address, CLEAN)
        before = None
        while before != (before := [(key, dict(s)) for key, s in self.summaries.items()]):
            for address, state in list(self.summaries):
                self._follow(address, state)
        found = []
        for address in self.wide:
            f = self._function(address)
            states, notes = self._follow(address, CLEAN)
            sse = [states[i] for i, (_, text) in enumerate(f.code) if states[i] and _legacy(text)]
            if sse:
                dirty = sum(state & DIRTY != 0 for state in sse)
                found.append((f.name, "mixes", f"{len(sse)} legacy SSE instructions, {dirty} where upper halves may be in use"))
            found += [(f.name, "calls", note) for note in notes]
            callers = self.callers.get(address, set())
            names = [self.lines[c][0] for c in callers if c not in self.wide]
            if address in self.pointed or not callers:
                names.append("whoever calls it through a value")
            if names and self._summary(address, CLEAN)["exit"] & DIRTY:
                found.append((f.name, "leaves", f"returns to {names[0]}"))
        return found


def _legacy(text: str) -> bool:
    return "%xmm" in text and not text.startswith("v")


def _load(path: str) -> Program:
    """Reads a program. What its data sections hold at multiples of 8 bytes may be addresses."""
    image, pointed = Path(path).read_bytes(), set()
    headers = subprocess.run(["objdump", "-h", "-w", path], check=True, capture_output=True, text=True).stdout
    for size, start, flags in re.findall(r"^ *\d+ \S+ +(\w+) +\w+ +\w+ +(\w+) +\S+ +(.*)$", headers, re.MULTILINE):
        if "CONTENTS" in flags and "ALLOC" in flags and "CODE" not in flags:
            content = image[int(start, 16) : int(start, 16) + int(size, 16)]
            pointed.update(array.array("Q", content[: len(content) // 8 * 8]))
    with subprocess.Popen(
        ["objdump", "-d", "-w", "--no-show-raw-insn", "-j", ".text", path], stdout=subprocess.PIPE, text=True
    ) as listing:
        program = Program(listing.stdout, pointed)
    kernels = sum(program.lines[a][0].startswith(OWN) for a in program.wide)
    if kernels < 20:
        sys.exit(f"{path}: {kernels} functions of imgfeed have wide vectors: build it with the kernels and with its symbols")
    return program


def excepted(name: str, rule: str) -> tuple[str, str] | None:
    """Returns the exception that covers a finding, None if none does."""
    for exception in EXCEPTIONS:
        start = exception[0]
        if exception[1] == rule and (name == start or (start.endswith("*") and name.startswith(start[:-1]))):
            return exception
    return None


def _main(paths: list[str]) -> None:
    found = sorted({finding for path in paths for finding in _load(path).findings()})
    bad = [finding for finding in found if not excepted(*finding[:2])]
    unused = set(EXCEPTIONS) - {excepted(*finding[:2]) for finding in found}
    for name, rule, detail in bad:
        print(f"{name} {rule}: {detail}")
    for name, rule in unused:
        print(f"{name} is excepted ({rule}) but nothing is found there: take it out of EXCEPTIONS")
    print(f"{len(found) - len(bad)} findings are excepted, {len(bad)} are not")
    sys.exit(bool(bad or unused))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    _main(sys.argv[1:])
