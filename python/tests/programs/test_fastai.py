"""fastai's Learner: the samples of a plain loop, and a validation that counts each once."""

from pathlib import Path
from typing import Any

import pytest

from imgfeed import DataLoader
from programs.conftest import SMALL, plain

pytest.importorskip("fastai")
EPOCHS = 3


@pytest.mark.filterwarnings("ignore")
def test_a_learner_gives_the_samples_of_a_plain_loop(shards: Path) -> None:
    import torch
    from fastai.callback.core import Callback
    from fastai.callback.progress import ProgressCallback
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner

    trained: list[Any] = []
    validated: list[Any] = []

    class Note(Callback):
        def before_batch(self) -> None:
            *_, index = self.learn.xb[0], *self.learn.yb
            (trained if self.training else validated).append([self.epoch, index.tolist()])
            self.learn.yb = self.learn.yb[:1]

    options: dict[str, Any] = {"transform": SMALL, "normalize": "imagenet", "with_index": True, "num_workers": 1}
    train = DataLoader(shards, 8, shuffle=True, seed=3, **options)
    val = DataLoader(shards, 8, even_batches=False, **options)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 5))
    data = DataLoaders(train, val)
    data.n_inp = 1  # the images; labels and indices come after
    learner = Learner(data, model, loss_func=torch.nn.functional.cross_entropy, cbs=[Note()])
    learner.remove_cb(ProgressCallback)
    with train, val, learner.no_logging():
        learner.fit(EPOCHS)
        trained_batches, validated_batches = list(trained), list(validated)
        predictions, labels = learner.get_preds(dl=val)
    want = plain(shards, 0, 1, EPOCHS, shuffle=True, seed=3)
    assert predictions.shape == (len(val.dataset), 5) and labels.tolist() == val.dataset.targets.tolist()
    assert trained_batches == [[e, batch] for e, epoch in enumerate(want) for batch in epoch]
    once = plain(shards, 0, 1, EPOCHS, even_batches=False)
    assert validated_batches == [[e, batch] for e, epoch in enumerate(once) for batch in epoch]
