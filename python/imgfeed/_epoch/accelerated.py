"""Registers a running iteration with Accelerate, as its own loaders do, and a resumed epoch with Hugging Face's Trainer.

Gradient accumulation then ends with an epoch, and Accelerate drops repeated samples.
"""

import functools
import logging
import sys
from typing import Any

log = logging.getLogger("imgfeed")


def begin(iteration: Any) -> None:
    """Make an iteration the one that Accelerate asks for ``end_of_dataloader`` and ``remainder``, until ``end``."""
    if state := end(iteration):
        state._add_dataloader(iteration)
        _watch_saves()


def end(iteration: Any) -> Any:
    """Have Accelerate ask an iteration no more. Return its GradientState, or None in a program without it."""
    module = sys.modules.get("accelerate.state")
    if module is None:
        return None
    state = module.GradientState()
    state._remove_dataloader(iteration)
    return state


@functools.cache
def _watch_saves() -> None:
    """Have the first call of save_state warn if it saves no loader's position. Accelerate has no hook for all Accelerators."""
    accelerator: Any = sys.modules["accelerate"].Accelerator
    save = accelerator.save_state

    @functools.wraps(save)
    def save_state(self: Any, *args: Any, **options: Any) -> Any:
        accelerator.save_state = save
        if not any(type(of).__module__ == "imgfeed.loader" for of in self._custom_objects):
            log.warning(
                "imgfeed: save_state does not save a loader's position: accelerator.register_for_checkpointing(loader) adds it"
            )
        return save(self, *args, **options)

    accelerator.save_state = save_state


@functools.cache
def watch_epochs(module: Any) -> None:
    """Have Hugging Face's Trainer count the rest of a resumed epoch: else its last gradients go into the next epoch's step.

    module is transformers.trainer, None in a program without it.
    """
    if module is None:
        return
    run = module.Trainer._run_epoch

    @functools.wraps(run)
    def run_epoch(self: Any, *args: Any, **given: Any) -> Any:
        rest = getattr(given.get("train_dataloader"), "_rest", None)
        if rest is not None and (batches := rest(given["epoch"])):
            steps = -(-batches // self.args.gradient_accumulation_steps)
            given |= {"steps_in_epoch": batches, "num_update_steps_per_epoch": steps}
        return run(self, *args, **given)

    module.Trainer._run_epoch = run_epoch
