"""A training with Keras that notes which samples it has had."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from imgfeed import DataLoader

SMALL = [{"op": "Resize", "size": 40}, {"op": "CenterCrop", "size": 32}]
EPOCHS = 3


def batches(loader: DataLoader, seen: list[Any]) -> Iterator[Any]:
    """Give one epoch, as a generator, which Keras goes through to its end."""
    for images, labels, index in loader:
        seen[-1].append(index.tolist())
        yield images, labels


class Count(keras.metrics.Sum):
    """How many samples an epoch or an evaluation has counted."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(keras.ops.ones_like(y_pred)[:, 0])


def main() -> None:
    data, out = sys.argv[1:]
    options: dict[str, Any] = {"framework": "numpy", "transform": SMALL, "with_index": True, "num_workers": 1}
    train, val = DataLoader(data, 8, shuffle=True, seed=3, **options), DataLoader(data, 8, **options)
    model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(5)])

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=[Count(name="samples")])
    noted: dict[str, Any] = {"trained": [], "validated": [], "counts": [], "backend": keras.backend.backend()}
    for epoch in range(EPOCHS):
        noted["trained"].append([])
        noted["validated"].append([])
        history = model.fit(batches(train, noted["trained"]), initial_epoch=epoch, epochs=epoch + 1, verbose=0)
        result = model.evaluate(batches(val, noted["validated"]), return_dict=True, verbose=0)
        noted["counts"].append([history.history["samples"][0], result["samples"]])
    Path(out, "rank0.json").write_text(json.dumps(noted, default=float))


if __name__ == "__main__":
    main()
