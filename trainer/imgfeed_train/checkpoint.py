"""The state of a training: taken, kept in OUTPUT/checkpoints whole or not at all, tested and restored.

previous.pt is the checkpoint before last.pt; best.pt has the best score. Weights and moments have the names of the parameters,
so any strategy and any number of ranks can take them.
"""

import contextlib
import os
import secrets
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from .data import Images
from .errors import DAMAGED, TrainError
from .evaluate import SUMS
from .files import link
from .flags import Settings
from .model import weights
from .model.build import bare
from .ranks import Rank, gather, on_first
from .step import Step
from .store import Store

VERSION = 5
NAMES = ("last.pt", "previous.pt", "best.pt")
PARTS: dict[str, Any] = dict.fromkeys(("model", "optimizer", "settings", "scaler", "loader", "progress", "images"), dict)
PARTS |= {"random": list, "classes": list, "batch_size": int, "model_ema": dict | None}
State = dict[str, Any]
FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)


@dataclass
class Progress:
    """How far a training is. ``batches``, ``seconds`` and ``sums`` are of the running epoch, ``steps`` of all."""

    run: str = ""  # names the run in its checkpoints and its log
    epoch: int = 0
    scored: int = 0  # evaluated epochs: one less than epoch between training and evaluation
    batches: int = 0
    steps: int = 0
    best: float = -1.0
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * SUMS)

    def __post_init__(self) -> None:
        """Raise ValueError for numbers that no training reaches."""
        numbers = [self.epoch, self.scored, self.batches, self.steps, self.seconds, self.best + 1]
        whole = all(type(value) is int for value in numbers[:4]) and type(self.run) is str
        if not whole or not all(value >= 0 for value in numbers) or len([float(v) for v in self.sums]) != SUMS:
            raise ValueError(f"no training is at {self}"[:200])


def capture(step: Step, loader: Any, at: Progress, classes: list[str], images: Images) -> State:
    """Return the whole state of a training. All ranks call it; with fsdp rank 0 alone gets the tensors."""
    model, moments = get_state_dict(bare(step.model), step.optimizer, options=FULL)
    cuda = step.rank.device.type == "cuda"
    generators = [torch.get_rng_state(), *([torch.cuda.get_rng_state(step.rank.device)] if cuda else [])]
    average = None if step.ema is None else step.ema.module.state_dict()
    state = {"version": VERSION, "settings": asdict(step.s), "model": model, "optimizer": moments, "model_ema": average}
    state |= {"scaler": step.scaler.state_dict(), "random": gather(generators), "progress": asdict(at)}
    data = {"loader": loader.state_dict(), "batch_size": loader.batch_size, "classes": classes, "images": asdict(images)}
    return state | data


def restore(step: Step, loader: Any, state: State, path: str) -> Progress:
    """Give model, optimiser, loader and generators the state that came from path. Raises TrainError where it does not fit."""
    before = state["settings"].get("optimizer")
    if before != step.s.optimizer:
        raise TrainError(f"{path} is of --optimizer {before}: its moments do not fit {step.s.optimizer}; give {before}")
    groups = step.optimizer.param_groups
    flags = [{name: group[name] for name in ("initial_lr", "weight_decay", "momentum") if name in group} for group in groups]
    states = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
    try:
        set_state_dict(bare(step.model), step.optimizer, **states, options=FULL)
        if step.ema is not None:
            step.ema.module.load_state_dict(state["model_ema"] or state["model"])
        for group, values in zip(step.optimizer.param_groups, flags, strict=True):
            group.update(values)
    except (AssertionError, *DAMAGED) as e:
        raise TrainError(f"{path} does not fit this model ({step.s.arch}) and optimiser: {str(e)[:300]}") from e
    loader.load_state_dict(state["loader"])
    try:
        at = Progress(**state["progress"])
        if state["scaler"] and step.scaler.is_enabled():
            step.scaler.load_state_dict(state["scaler"])
        torch.manual_seed(step.s.seed + at.steps + step.rank.rank)
        if len(state["random"]) == step.rank.world:  # other ranks begin with generators of their own
            mine, *cuda = state["random"][step.rank.rank]
            torch.set_rng_state(mine)
            if cuda and step.rank.device.type == "cuda":
                torch.cuda.set_rng_state(cuda[0], step.rank.device)
    except DAMAGED as e:
        raise TrainError(f"{path} is damaged, or another program's ({type(e).__name__}: {str(e)[:200]}): resume another") from e
    return at


def read(file: Path, path: str) -> State:
    """Return the state in a file, which came from path. Raises TrainError with what is wrong with it."""
    try:
        with zipfile.ZipFile(file) as archive:
            torn = archive.testzip()  # torch would take a flipped bit
    except (zipfile.BadZipFile, zlib.error, OSError, *DAMAGED) as e:
        raise TrainError(f"{path} is damaged: {e}") from e
    if torn:
        raise TrainError(f"{path} is damaged: its part {torn} does not have the checksum that it was written with")
    state = weights.load(file, path)
    if not isinstance(state, dict) or state.get("version") != VERSION:
        found = state.get("version") if isinstance(state, dict) else None
        raise TrainError(f"{path} is a checkpoint of version {found!r:.20}, want {VERSION}, or another program's")
    wrong = [name for name, kind in PARTS.items() if not isinstance(state.get(name), kind)]
    with contextlib.suppress(*DAMAGED):
        if not wrong and weights.images_of(state) and reached(state):
            return state
    raise TrainError(f"{path} is damaged, or another program's: its {', '.join(wrong) or 'images or progress'} can't be used")


def reached(state: State) -> tuple[int, int, int]:
    """Return how far a state is: epochs, samples of the next one, evaluated epochs. Of two states the greater is further."""
    at = Progress(**state["progress"])
    return at.epoch, int(state["loader"]["consumed"]), at.scored


class Keeper:
    """The checkpoints of a run. Each rank has one; rank 0 reads and writes."""

    def __init__(self, s: Settings, rank: Rank) -> None:
        """Try the folder and the store, so that they fail now, not after an epoch."""
        self._s, self._rank, self._failed = s, rank, ""
        self.ahead: list[Path] = []  # files that the store has an older copy of, or none
        self.folder, self.store = Path(s.output) / "checkpoints", Store(s.checkpoints, Path(s.output) / "unsent")
        self.resume = s.resume or ("auto" if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) else None)
        on_first(rank, self._begin)

    def _begin(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise TrainError(f"--output {self._s.output} can't be written: {e.strerror}") from e
        self.store.recover()
        there = [str(path) for name in NAMES for path in (self.folder / name, self.store.unsent / name) if path.exists()]
        there += [self.store.path(name) for name in NAMES if self.store.has(name)]
        if there and not self.resume:
            choice = "continue it with --resume auto, use another --output or --checkpoints, or remove them"
            raise TrainError(f"there are checkpoints of a run ({', '.join(there)}): {choice}")

    def find(self) -> tuple[str, State | None, str]:
        """Return, on rank 0, the path and the state to continue from, None to begin anew, and the run's name."""
        path, state, auto, damaged = self.resume or "", None, self.resume == "auto", dict[str, str]()
        if path and not auto:
            with self.store.local(path) as here:
                if here is None:
                    raise TrainError(f"--resume {path}: there is no such checkpoint")
                state = read(here, path)
        for source in [*([str(self.folder), str(self.store.unsent)] if auto else []), self.store.url] if path else []:
            at, found = self._newest(source, damaged)
            if found and state and found["progress"]["run"] != state["progress"]["run"]:
                raise TrainError(
                    f"{at} belongs to another run than {path}: use another --checkpoints or --output, or remove one"
                )
            if auto and found and (state is None or reached(found) > reached(state)):
                path, state = at, found
        if state is None:
            if damaged:
                raise TrainError(f"{'; '.join(damaged.values())}; no other checkpoint is left: remove them to start again")
            return "", None, (auto and self.store.holder()[4:].partition(",")[0]) or secrets.token_hex(8)
        for bad in damaged if auto else ():  # else the next checkpoint would make it previous.pt
            with self.store.local(path) as here:
                self.store.replace(bad, here or Path(path))
        for name in ("last.pt", "best.pt") if auto else ():
            if at == path:  # the store's, which the files of this machine are behind
                (self.store.unsent / name).unlink(missing_ok=True)
            elif Path(path).parent == self.folder and (found is None or reached(found) < reached(state)):
                self.ahead += [self.folder / name] if (self.folder / name).exists() else []
        return path, state, state["progress"]["run"]

    def _newest(self, source: str | None, damaged: dict[str, str]) -> tuple[str, State | None]:
        """Return the path and the state of the newest whole checkpoint of a folder or URL; add those that are damaged."""
        for path in [f"{source.rstrip('/')}/{name}" for name in ("last.pt", "previous.pt")] if source else []:
            with self.store.local(path) as here:
                try:
                    if here is not None:
                        return path, read(here, path)
                except TrainError as e:
                    damaged[path] = str(e)
                    print(f"{e}; the checkpoint before it is tried", flush=True)
        return "", None

    def save(self, state: State, best: bool = False) -> bool:
        """Keep a state as the last, and as the best if it is. Return False where the disk did not take it."""
        partial, last = self.folder / ".partial", self.folder / "last.pt"
        if self._rank.rank:
            return True
        try:
            with partial.open("wb") as f:
                torch.save(state, f)
                f.flush()
                os.fsync(f.fileno())
            if last.exists():
                last.replace(self.folder / "previous.pt")
            for name in ("last.pt", "best.pt") if best else ("last.pt",):
                link(partial, self.folder / name)
                self.store.leave(self.folder / name)
            self._failed = ""
        except (OSError, RuntimeError) as e:  # torch's writer, which a full disk breaks, raises its own
            cause = e if isinstance(e, OSError) else e.__context__
            if not isinstance(cause, OSError):
                raise
            self._failed = f"{last} can't be written: {cause.strerror}; what was there before is still there"
            print(f"imgfeed-train: {self._failed}. It is tried again with the next checkpoint", flush=True)
        finally:
            partial.unlink(missing_ok=True)
        return not self._failed

    def finish(self, told: bool) -> None:
        """Wait, on rank 0, for the store, briefly if told to stop. Raises TrainError for what is not kept or not sent."""
        if self._failed:
            raise TrainError(self._failed)
        self.store.wait(told)
