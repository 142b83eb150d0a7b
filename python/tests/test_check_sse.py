"""scripts/check_sse.py on functions made for it, as objdump lists them."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("check_sse", Path(__file__).parents[2] / "scripts/check_sse.py")
check_sse = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_sse)

ADD, XORPS, CLEAR, RET = "vpaddd %ymm5,%ymm1,%ymm0", "xorps  %xmm0,%xmm0", "vzeroupper", "ret"
CALL_F, CALL_G, CALL_VALUE, JUMP_TABLE = "call   1000 <f>", "call   2000 <g>", "call   *%rcx", "jmp    *%rax"


def jump(mnemonic: str, number: int) -> str:
    """To an instruction of f, each of which has 16 bytes here."""
    return f"{mnemonic}    {0x1000 + 16 * number:x} <f+{16 * number:#x}>"


@pytest.mark.parametrize(
    ("f", "g", "want"),
    [
        pytest.param([ADD, CLEAR, RET], [RET], [], id="nothing"),
        pytest.param([ADD, RET], [RET], ["f leaves"], id="not cleared"),
        pytest.param([ADD, jump("je", 3), CLEAR, RET], [RET], ["f leaves"], id="cleared on one way only"),
        pytest.param([ADD, jump("je", 4), CLEAR, RET, CLEAR, RET], [RET], [], id="cleared on both ways"),
        pytest.param([ADD, XORPS, CLEAR, RET], [RET], ["f mixes"], id="SSE among AVX"),
        pytest.param([ADD, CLEAR, XORPS, RET], [RET], ["f mixes"], id="SSE after it is cleared"),
        pytest.param([ADD, CALL_G, CLEAR, RET], [XORPS, RET], ["f calls"], id="SSE called"),
        pytest.param([ADD, CLEAR, CALL_G, RET], [XORPS, RET], [], id="SSE called after it is cleared"),
        pytest.param([ADD, CALL_G, RET], [CLEAR, XORPS, RET], [], id="SSE called that clears before"),
        pytest.param([ADD, CALL_G, CLEAR, RET], [ADD, RET], [], id="a part that leaves it to its caller"),
        pytest.param([CALL_G, ADD, CLEAR, CALL_G, RET], [ADD, RET], ["f leaves"], id="a part that its caller forgets"),
        pytest.param([ADD, CALL_VALUE, CLEAR, RET], [RET], ["f calls"], id="a call through a value"),
        pytest.param([ADD, jump("jne", 0), CLEAR, RET], [RET], [], id="a loop"),
        pytest.param([XORPS, ADD, jump("jne", 0), CLEAR, RET], [RET], ["f mixes"], id="a loop that comes back in use"),
        pytest.param([ADD, "call   1ff0 <e+0x30>", CLEAR, RET], [RET], ["f calls"], id="a call into the middle of a function"),
        pytest.param([ADD, "call   3000 <runtime.panicIndex>"], [RET], [], id="a call that never returns"),
        pytest.param([ADD, "jmp    2000 <g>"], [CLEAR, RET], [], id="a jump to a function that clears"),
        pytest.param([ADD, JUMP_TABLE], [RET], ["f leaves"], id="a jump to nowhere known"),
        pytest.param([ADD, JUMP_TABLE, CLEAR, RET, RET], [RET], ["f leaves"], id="a jump table"),
    ],
)
def test_rules(f: list[str], g: list[str], want: list[str]) -> None:
    functions = {
        "f": (0x1000, f),
        "g": (0x2000, g),
        "runtime.panicIndex": (0x3000, [XORPS, RET]),
        "h": (0x4000, ["call   1000 <f>", RET]),
    }
    listing = []
    for name, (address, code) in functions.items():
        listing.append(f"{address:016x} <{name}>:")
        listing += [f"  {address + 16 * i:x}:\t{text}" for i, text in enumerate(code)]
    program = check_sse.Program(listing, {0x1020, 0x1040})
    assert [f"{name} {rule}" for name, rule, _ in program.findings()] == want


def test_functions_called_through_values() -> None:
    code = ["0000000000001000 <f>:", f"  1000:\t{ADD}", f"  1010:\t{RET}"]
    code += ["0000000000002000 <g>:", f"  2000:\t{CALL_F}", f"  2010:\t{ADD}", f"  2020:\t{CLEAR}", f"  2030:\t{RET}"]
    assert check_sse.Program(code, set()).findings() == []
    assert check_sse.Program(code, {0x1000}).findings() == [("f", "leaves", "returns to whoever calls it through a value")]
    code.append("  2040:\tlea    -0x1047(%rip),%rax        # 1000 <f>")
    assert len(check_sse.Program(code, set()).findings()) == 1


def test_exceptions() -> None:
    assert check_sse.excepted("runtime.memmove", "mixes")
    assert not check_sse.excepted("runtime.memmove", "leaves")
    assert not check_sse.excepted("runtime.memmoveX", "mixes")
    assert check_sse.excepted("github.com/parquet-go/parquet-go.maxInt32.abi0", "mixes")
