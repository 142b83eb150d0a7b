"""Models by name, with their weights, spread over the ranks."""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import timm
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..data import Images
from ..errors import TrainError
from ..flags import Settings, near
from ..ranks import Rank, most
from . import weights

TORCHVISION = torchvision.models.list_models(module=torchvision.models)


def build(s: Settings, classes: int | None, rank: Rank, resumed: bool = False) -> tuple[nn.Module, Images, int]:
    """Return the model, how it wants its images, and how many classes its weights tell apart.

    It has an output for each class; with None, those of its weights. Raises TrainError where no library has the name.
    """
    s = dataclasses.replace(s, weights=None) if resumed else s  # the checkpoint has all; the file may be gone
    wait = dist.is_initialized() and s.weights is not None  # a machine's first rank fetches for the others
    if wait and rank.local_rank:
        dist.barrier()
    model, images, count = (_torchvision if s.arch in TORCHVISION else _timm)(s.arch.removeprefix("timm/"), s, classes)
    if wait and not rank.local_rank:
        dist.barrier()
    if classes not in (None, count):
        _new_head(model, classes or 0)
    if s.file:
        images = weights.images_of(weights.own(s.file)) or images  # as the run of that checkpoint had them
    if s.weights:
        new = f"; THE HEAD IS NEW, with random weights for {classes} classes instead of {count}"
        rank.say(f"weights: {s.file or f'published ones of {s.arch}'}{'' if classes in (None, count) else new}")
    if s.grad_checkpointing:
        if not hasattr(model, "set_grad_checkpointing"):
            raise TrainError("--grad-checkpointing takes a model of timm: --arch timm/NAME")
        model.set_grad_checkpointing()  # type: ignore[operator]
    if s.freeze:
        model.requires_grad_(False)
        head_of(model)[1].requires_grad_(True)
    return model, images, count


def head_of(model: nn.Module) -> tuple[str, nn.Module]:
    """Return the name of the last layer, which has an output for each class, and the layer."""
    if hasattr(model, "get_classifier"):  # timm's
        head = model.get_classifier()  # type: ignore[operator]
        return next((name, module) for name, module in model.named_modules() if module is head)
    return [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)][-1]


def _new_head(model: nn.Module, classes: int) -> None:
    if hasattr(model, "reset_classifier"):
        model.reset_classifier(classes)  # type: ignore[operator]
        return
    name, head = head_of(model)
    new = nn.Conv2d(head.in_channels, classes, 1) if isinstance(head, nn.Conv2d) else nn.Linear(head.in_features, classes)  # type: ignore[arg-type]
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, new)


def set_training(model: nn.Module, s: Settings) -> None:
    """Set the model to training. With --freeze all but the head stays as in evaluation, batch norm's statistics too."""
    model.train(not s.freeze)
    if s.freeze:
        head_of(bare(model))[1].train()


def _torchvision(name: str, s: Settings, classes: int | None) -> tuple[nn.Module, Images, int]:
    state: weights.State = {}
    if s.file:
        state = weights.read(s.file)
    elif s.weights:
        published = torchvision.models.get_model_weights(name).DEFAULT
        try:
            state = dict(published.get_state_dict(progress=False, check_hash=True))
        except Exception as e:
            raise TrainError(f"{published.url} can't be fetched ({e}): fetch it, give it by --weights") from e
    count = weights.head_size(state, s.weights or name) if state else classes or 0
    plain = name in ("googlenet", "inception_v3")
    options: dict[str, Any] = {"aux_logits": False, "init_weights": True} if plain else {}
    options |= {"image_size": s.size[0]} if name.startswith("vit_") else {}
    options |= {"stochastic_depth_prob": s.drop_path} if s.drop_path else {}
    try:
        model: Any = torchvision.models.get_model(name, num_classes=count, **options)
    except TypeError as e:
        raise TrainError(f"--drop-path: {name} has no stochastic depth; timm's model of that name may have it") from e
    if state:
        try:
            if name.startswith("vit_"):  # the position embedding is resampled
                vision = torchvision.models.vision_transformer
                state = vision.interpolate_embeddings(s.size[0], model.patch_size, state)
            model.load_state_dict({n: t for n, t in state.items() if not n.lower().startswith("aux")})
        except (KeyError, RuntimeError, ValueError) as e:
            raise TrainError(f"{s.weights} does not fit --arch {s.arch}: {str(e)[:300]}") from e
    half = (0.5,) * 3  # of the weights that torchvision took from TensorFlow
    return model, Images(half, half) if plain and state else Images(), count


def _timm(name: str, s: Settings, classes: int | None) -> tuple[nn.Module, Images, int]:
    if not timm.is_model(name):
        raise TrainError(f"--arch {s.arch} is in neither torchvision nor timm{near(name, [*TORCHVISION, *timm.list_models()])}")
    known = timm.get_pretrained_cfg(name)
    published = s.weights is not None and s.file is None
    count = known.num_classes if published and known else classes or 0
    options: dict[str, Any] = {"pretrained": published}
    if s.file:  # by timm's own loader, which knows the names that a model's authors gave its tensors
        state = weights.read(s.file)
        count = weights.head_size(state, s.file)
        own = {"state_dict": state, "source": "", "custom_load": False, "num_classes": count}
        options = {"pretrained": True, "pretrained_cfg_overlay": own}
    options |= {"num_classes": count} | ({"drop_path_rate": s.drop_path} if s.drop_path else {})
    try:
        try:
            model: Any = timm.create_model(name, img_size=s.size[0], **options)
        except TypeError as e:
            if "img_size" not in str(e):
                raise
            model = timm.create_model(name, **options)  # convolutional models take no size
    except Exception as e:
        what = f"{s.weights} does not fit --arch {s.arch}" if s.weights else f"--arch {s.arch}"
        if published and known:
            what = f"{known.hf_hub_id} can't be fetched: fetch it, give it by --weights"
        what = f"--drop-path: {name} has no stochastic depth" if "drop_path_rate" in str(e) else what
        raise TrainError(f"{what}: {str(e)[:300]}") from e
    model.pretrained_cfg["state_dict"] = None  # else each copy of the model would hold it
    wants = timm.data.resolve_model_data_config(model)
    resize = "bicubic" if wants["interpolation"] == "bicubic" else "bilinear"
    return model, Images(tuple(wants["mean"]), tuple(wants["std"]), resize, wants["crop_pct"]), count


def check_last_batch(model: nn.Module, samples: int, batch_size: int) -> None:
    """Raise TrainError where batch norm would see a batch of one image, which has no statistics, in each epoch."""
    if samples % batch_size == 1 and any(isinstance(m, _BatchNorm) for m in model.modules()):
        why = "the last batch of an epoch would have one image, over which batch norm has no statistics"
        raise TrainError(f"{why}: take another --batch-size than {batch_size}")


def rest_norms(model: nn.Module) -> None:
    """Have batch norm use its running statistics, for a batch that has none, up to the next ``set_training``."""
    for norm in (m for m in model.modules() if isinstance(m, _BatchNorm)):
        norm.eval()


class DataParallel(nn.DataParallel):
    """Computes in --amp's type on each GPU. The type belongs to a thread, and torch's own threads would take fp16."""

    def parallel_apply(self, replicas: Sequence[Any], inputs: Any, kwargs: Any) -> list[Any]:
        """Run each replica in a thread of its own."""
        kind = inputs[0][0].device.type
        how = {"dtype": torch.get_autocast_dtype(kind), "enabled": torch.is_autocast_enabled(kind)}
        return super().parallel_apply([torch.autocast(kind, **how)(replica) for replica in replicas], inputs, kwargs)  # type: ignore[no-any-return]


def distribute(model: nn.Module, s: Settings, rank: Rank) -> nn.Module:
    """Return the model under the strategy of the settings. Its own state stays reachable through ``bare``."""
    if s.strategy == "dp" and rank.world > 1:
        raise TrainError(f"--strategy dp is one process for all GPUs of a machine, and here are {rank.world}: use ddp")
    if s.sync_bn and rank.world > 1:
        if rank.device.type != "cuda":
            raise TrainError("--sync-bn: torch shares the statistics of batch norm between GPUs alone; leave it out")
        model = timm.layers.convert_sync_batchnorm(model)
    if s.compile:
        model.compile(dynamic=False)  # else the kernels of a resumed run depend on the shape that it begins with
    if s.strategy == "dp" and rank.device.type == "cuda":
        return DataParallel(model)
    if s.strategy == "fsdp" and rank.world > 1:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - slow to import

        lists = [m for m in model.modules() if isinstance(m, nn.Sequential | nn.ModuleList)]
        inner = {id(m) for found in lists for m in found.modules() if m is not found}
        blocks = [block for found in lists if id(found) not in inner for block in found]
        for part in (*(block for block in blocks if any(True for _ in block.parameters())), model):
            fully_shard(part)
    elif rank.world > 1:  # batch statistics are each rank's own in training; evaluation and checkpoints take rank 0's
        ddp, ids = nn.parallel.DistributedDataParallel, [rank.device] if rank.device.type == "cuda" else None
        named = {*inspect.signature(ddp).parameters} & {"forward_sync_buffers", "broadcast_buffers"}  # the newer is the greater
        return ddp(model, device_ids=ids, **{max(named): False})
    return model


def bare(model: nn.Module) -> nn.Module:
    """Return the model without the wrapper of DDP or DataParallel."""
    wrapped = isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel)
    return model.module if wrapped else model  # type: ignore[return-value]


def is_fsdp(model: nn.Module) -> bool:
    """Return whether fully_shard was applied."""
    return hasattr(model, "set_requires_gradient_sync")


def syncing(model: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Return the context of one batch of a step: ranks exchange gradients in its last batch alone."""
    if is_fsdp(model):
        model.set_requires_gradient_sync(last)  # type: ignore[operator]
    elif isinstance(model, nn.parallel.DistributedDataParallel) and not last:
        return model.no_sync()  # type: ignore[no-any-return]
    return contextlib.nullcontext()


def largest_batch(run: Callable[[int], None], rank: Rank, multiple: int = 8) -> int:
    """Return a number n, within 6 % of the largest, for which run(n) leaves a tenth of each rank's memory free."""

    def fits(n: int) -> bool:
        try:
            run(n)
            free, total = torch.cuda.mem_get_info(rank.device) if rank.device.type == "cuda" else (1, 1)
            return bool(free > total / 10)
        except RuntimeError as e:
            if not (isinstance(e, torch.cuda.OutOfMemoryError) or "out of memory" in str(e) or "ALLOC_FAILED" in str(e)):
                raise
            return False
        finally:
            torch.cuda.empty_cache()

    low, high = 0, multiple
    while fits(high):
        low, high = high, high * 2
    while high - low > max(multiple, low // 16):
        middle = (low + high) // 2 // multiple * multiple
        low, high = (middle, high) if fits(middle) else (low, middle)
    found = int(most(low, rank, dist.ReduceOp.MIN))
    if not found:
        raise TrainError(f"--batch-size auto: not even {multiple} images fit the GPU of every rank")
    return found
