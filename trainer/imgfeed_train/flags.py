"""Flags made of a dataclass: each field is a flag, with its help, its range, and its default in one place.

    @dataclass(kw_only=True)
    class Settings:
        lr: float = option(0.1, "highest learning rate", within=AT_LEAST_0)

gives ``--lr LR``, whose value is checked wherever it comes from: a flag, a recipe, or a configuration file.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from imgfeed.kinds import parse_seconds

from .errors import TrainError


@dataclass(frozen=True)
class Range:
    """The numbers that a setting may be. ``above`` and ``below`` leave the bound itself out."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, number: float) -> bool:
        """Return whether a number is in the range; infinite ones and NaN never are."""
        low = number > self.low if self.above else number >= self.low
        high = number < self.high if self.below else number <= self.high
        return math.isfinite(number) and low and high

    def __str__(self) -> str:
        """Return it in words, as ``from 0 to below 1``."""
        low, high = _written(self.low), _written(self.high)
        if math.isinf(self.high):
            return f"above {low}" if self.above else f"at least {low}"
        return f"{'above' if self.above else 'from'} {low} {'to below' if self.below else 'to'} {high}"


def _written(number: float) -> str:
    """Return a number as it may be given: whole ones with all their digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


AT_LEAST_0 = Range(0)
COUNT, COUNT_OR_0 = Range(1, 2**31 - 1), Range(0, 2**31 - 1)  # whole numbers: more is a slip that ends somewhere in torch
BELOW_1 = Range(0, 1, below=True)
AT_MOST_A_WEEK = Range(0, 7 * 24 * 3600, above=True)  # in seconds


def option(
    default: Any,
    help: str = "",  # noqa: A002 - as argparse calls it
    *,
    within: Range | None = None,
    choices: Sequence[str] = (),
    short: Sequence[str] = (),
    metavar: Any = None,
    time: bool = False,
    group: str = "",
) -> Any:
    """Return a field of a dataclass that is a flag too. group begins a group of flags, which the fields behind it join.

    With time it is a number of seconds, which ``1m30s`` may say too.
    """
    told = {
        "help": help,
        "within": within,
        "choices": tuple(choices),
        "short": short,
        "metavar": metavar,
        "time": time,
        "group": group,
    }
    return field(default=default, metadata=told)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose errors are one line."""

    def __init__(self, **how: Any) -> None:
        """Take what argparse takes."""
        super().__init__(allow_abbrev=False, formatter_class=_Help, **how)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where to read on; exit with 2."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            name = unknown.split()[0].partition("=")[0]
            known = self._option_string_actions
            only = name.endswith("-only") and "--evaluate" in known  # --eval-only and --test-only of other trainers
            near = ["--evaluate"] if only else difflib.get_close_matches(name, known, 1)
            message += f"; is {near[0]} meant?" if near else ""
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ').replace(': is ', ' is ', 1)} (see {self.prog} --help)\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows what a flag is by default, where that is something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = getattr(action, "shown", None)
        text = action.help or ""
        return text if default in (None, "", False) else f"{text}{' ' if text else ''}(default: {default})"


def add(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add the flags of a dataclass. The parsed namespace has those that the command line gives."""
    kinds = typing.get_type_hints(settings)
    group: Any = parser
    for f in fields(settings):
        if f.metadata.get("group"):
            name, _, about = f.metadata["group"].partition(": ")
            group = parser.add_argument_group(name, about or None)
        if "help" in f.metadata:
            _add(group, f, kinds[f.name])


def _add(group: Any, f: Field[Any], kind: Any) -> None:
    names = [*f.metadata["short"], flag(f.name)]
    how: dict[str, Any] = {"dest": f.name, "default": argparse.SUPPRESS, "help": f.metadata["help"]}
    plain = _plain(kind)
    if plain is bool:
        action = group.add_argument(*names, action=argparse.BooleanOptionalAction, **how)
    else:
        if typing.get_origin(plain) is tuple:
            how |= {"nargs": 2, "type": float}
        else:
            how |= {"type": _reader(f, kind)}
        if f.metadata["choices"]:
            how["choices"] = f.metadata["choices"]
        action = group.add_argument(*names, metavar=f.metadata["metavar"], **how)
    action.shown = None if f.default is MISSING else f.default


def flag(name: str) -> str:
    """Return a setting's flag: ``--batch-size`` of ``batch_size``."""
    return "--" + name.replace("_", "-")


def _plain(kind: Any) -> Any:
    """Return a type without ``| None``."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        some = [k for k in typing.get_args(kind) if k is not type(None)]
        return some[0]
    return kind


def _words(kind: Any) -> tuple[str, ...]:
    """Return the words that a type takes beside its numbers, as ``auto`` of ``int | Literal["auto"]``."""
    parts = typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
    return tuple(w for part in parts if typing.get_origin(part) is typing.Literal for w in typing.get_args(part))


def _reader(f: Field[Any], kind: Any) -> Any:
    plain, words = _plain(kind), _words(kind)

    def read(text: str) -> Any:
        if text in words:
            return text
        try:
            return parse_seconds(text) if f.metadata["time"] else plain(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"is {text!r}, want {_wanted(f, plain, words)}") from None

    return read


def _wanted(f: Field[Any], plain: Any, words: Sequence[str]) -> str:
    if f.metadata.get("time"):
        return "a time such as 30s, 5m, or a number of seconds"
    what = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(plain, "two numbers")
    return " or ".join([what, *(f"'{w}'" for w in words)])


def checked(settings: type, values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return values with the types of their fields. Raises TrainError for one of another type, or out of its range.

    where names a file that they come from; without it they are flags.
    """
    kinds = typing.get_type_hints(settings)
    known = {f.name: f for f in fields(settings)}
    found: dict[str, Any] = {}
    for name, given in values.items():
        shown = (
            f"{where}: {name}" if where else "/".join([*(known[name].metadata["short"] if name in known else ()), flag(name)])
        )
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise TrainError(f"{shown} is no setting{f'; is {near[0]} meant?' if near else ''}")
        f, kind = known[name], kinds[name]
        value = _typed(shown, given, f, kind)
        if value == "" and f.default != "":
            raise TrainError(f"{shown} is empty, as an unset variable is: leave it away, or say what is meant")
        within, choices = f.metadata.get("within"), f.metadata.get("choices")
        if within is not None and not isinstance(value, str | None):
            for number in value if isinstance(value, tuple) else (value,):
                if number not in within:
                    raise TrainError(f"{shown} is {_written(number)}, want {within}")
        if choices and value is not None and value not in choices:
            raise TrainError(f"{shown} is {value!r}, want one of {', '.join(choices)}")
        found[name] = value
    return found


def _typed(shown: str, value: Any, f: Field[Any], kind: Any) -> Any:
    """Return a value as its field's type. YAML reads 1e-4 as a text, and 1 where 1.0 is meant."""
    plain, words = _plain(kind), _words(kind)
    if value is None and type(None) in typing.get_args(kind):
        return None
    if value in words or (isinstance(value, plain if isinstance(plain, type) else tuple) and type(value) is not bool):
        return value
    if plain is bool and isinstance(value, bool):
        return value
    try:
        if f.metadata.get("time") and isinstance(value, str):
            return parse_seconds(value)
        if plain is float and not isinstance(value, bool):
            return float(value)
        if typing.get_origin(plain) is tuple and len(value) == 2:
            return float(value[0]), float(value[1])
    except (TypeError, ValueError):
        pass
    raise TrainError(f"{shown} is {value!r}, want {_wanted(f, plain, words)}")


def read_file(path: str) -> dict[str, Any]:
    """Return the settings in a file of YAML (or JSON, which is YAML too), with ``-`` or ``_`` in their names."""
    import yaml  # noqa: PLC0415 - only --config needs it

    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as e:
        raise TrainError(f"--config {path} can't be read: {' '.join(str(e).split())}") from e
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise TrainError(f"--config {path} holds no settings: want lines such as `batch_size: 256`")
    return {name.replace("-", "_"): value for name, value in content.items()}


def file_text(values: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Return the text of a file that :func:`read_file` takes."""
    lines = [f"# {comment}" for comment in comments]
    return "\n".join([*lines, *(f"{name}: {json.dumps(value)}" for name, value in values.items()), ""])


def fail(parser: argparse.ArgumentParser, error: TrainError) -> NoReturn:
    """End the program as after a mistake in its flags."""
    parser.error(str(error))
    sys.exit(2)  # not reached: for the type checker
