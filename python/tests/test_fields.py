"""Fields: values beside the label, from the files that they are packed from to the batches that they come in."""

import csv
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, imgshard, listed, loaders

import imgfeed
from imgfeed import DataLoader

Values = dict[str, dict[str, Any]]  # by key
FLAGS = [
    "score=meta.score:float32",
    "tags=meta.tags:multihot[7]",
    "caption=caption:text",
    "meta=json.meta",
    "emb=emb:float32[3]",
    "age=meta.age:int64",
    "pair=pair:int64[2]",
    "mask=mask:bytes",
]
NAMES = [flag.split("=")[0] for flag in FLAGS]


def values_of(i: int) -> dict[str, Any]:
    """What a sample has: score and meta by JSON, tags as numbers."""
    meta = {"score": i / 4, "age": -i, "tags": [t for t in range(7) if i >> t & 1]}
    hot = np.array([i >> t & 1 for t in range(7)], np.float32)
    return {
        "score": np.float32(i / 4), "tags": hot, "caption": f"no. {i} ü" * (i % 3), "meta": meta,
        "emb": np.array([i, 0.5, -i], np.float32), "age": np.int64(-i), "pair": np.array([i, -i]), "mask": b"m" * (i % 4),
    }  # fmt: skip


@pytest.fixture(scope="module")
def source(images: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Values]:
    """A list of images with values of each type."""
    folder = tmp_path_factory.mktemp("fields") / "train"
    shutil.copytree(images, folder)
    values: Values = {}
    for i, file in enumerate(sorted(folder.rglob("*.JPEG"))):
        values[file.relative_to(folder).as_posix()] = values_of(i)
    fields = {
        key: {
            "caption": v["caption"], "meta": v["meta"], "emb": v["emb"].tolist(), "pair": v["pair"].tolist(),
            "mask": v["mask"].decode(),
        }
        for key, v in values.items()
    }  # fmt: skip
    return listed(folder, fields), values


@pytest.fixture(scope="module")
def packed(source: tuple[Path, Values], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, packed."""
    out = tmp_path_factory.mktemp("packed") / "train-shards"
    imgshard("build", source[0], "-o", out, "--partitions", "2", *(f"--field={flag}" for flag in FLAGS))
    return out


@pytest.fixture(params=["shm", "socket"])
def load(request: pytest.FixtureRequest, packed: Path) -> Iterator[Any]:
    """Makes loaders of numpy arrays, on both transports, and closes them."""
    yield from loaders(packed, framework="numpy", transform=SMALL, transport=request.param)


def equal(got: Any, want: Any) -> bool:
    """Whether a sample's value is what it should be, in type too."""
    if isinstance(want, np.ndarray):
        return bool(got.dtype == want.dtype and np.array_equal(got, want))
    return type(got) is type(want) and bool(got == want)


def test_every_value_of_an_epoch(load: Any, source: tuple[Path, Values]) -> None:
    loader = load(shuffle=True, seed=3, fields=NAMES, with_index=True, with_params=True)
    names = sorted(NAMES)
    seen = set()
    for images, labels, *fields, indices, params in loader:
        assert len(fields) == len(NAMES) and params.shape == (len(images), 5) and labels.dtype == np.int64
        for k, index in enumerate(indices):
            want = source[1][loader.dataset.key(int(index))]
            assert all(equal(field[k], want[name]) for name, field in zip(NAMES, fields, strict=True)), (index, names)
            seen.add(int(index))
    assert seen == set(range(len(source[1])))


def test_a_field_instead_of_the_labels(load: Any, source: tuple[Path, Values]) -> None:
    for target, fields in (("tags", ()), ("caption", ()), ("score", ("caption", "score")), ("meta", ("meta",))):
        loader = load(target=target, fields=fields, with_index=True)
        for batch in loader:
            _, targets, *others, indices = batch
            assert len(batch) == 3 + len(fields)
            for k, index in enumerate(indices):
                want = source[1][loader.dataset.key(int(index))]
                assert equal(targets[k], want[target])
                assert all(equal(other[k], want[name]) for name, other in zip(fields, others, strict=True))


def test_views_and_copies(load: Any) -> None:
    """Numbers are views of the shared memory; when so many batches are held that they come as copies, they are right too."""
    loader = load(4, slots=4, fields=["emb", "caption"], with_index=True)
    held = list(loader)
    kept = [[np.array(part) for part in batch] for batch in held]
    ring = loader._service.session().ring
    if ring is not None:
        begin, end = ring.memory.ctypes.data, ring.memory.ctypes.data + ring.memory.nbytes
        assert begin <= held[0][2].ctypes.data < end
        assert not begin <= held[-1][2].ctypes.data < end
    again = {
        int(i): (e.copy(), c) for _, _, emb, captions, index in loader for e, c, i in zip(emb, captions, index, strict=True)
    }
    for _, _, emb, captions, index in kept:
        for k, i in enumerate(index):
            assert np.array_equal(again[int(i)][0], emb[k]) and again[int(i)][1] == captions[k]


def test_the_dataset_says_what_there_is(load: Any, source: tuple[Path, Values]) -> None:
    loader = load(fields=["score"])
    assert loader.dataset.fields == {
        "score": "float32", "tags": "float32[7]", "caption": "text", "meta": "json", "emb": "float32[3]", "age": "int64",
        "pair": "int64[2]", "mask": "bytes",
    }  # fmt: skip
    for index in (0, 1, len(loader.dataset) - 1):
        got, want = loader.dataset.get(index), source[1][loader.dataset.key(index)]
        assert got.keys() == want.keys() and all(equal(got[name], want[name]) for name in want)
    with pytest.raises(imgfeed.BadRequestError, match="there is no sample"):
        loader.dataset.get(10**6)


def test_names_that_are_not_there(load: Any) -> None:
    for options in ({"fields": ["colour"]}, {"target": "colour"}):
        with pytest.raises(imgfeed.BadRequestError, match='no field "colour" here; there are score float32, tags'):
            load(**options)
    with pytest.raises(ValueError, match=r"fields is .* each once"):
        load(fields=["score", "score"])
    with pytest.raises(TypeError, match="fields is 'score', want a list"):
        load(fields="score")


def test_a_set_without_fields(shards: Path) -> None:
    with pytest.raises(imgfeed.BadRequestError, match="the set has no fields"):
        DataLoader(shards, 8, transform=SMALL, fields=["score"])
    with DataLoader(shards, 8, transform=SMALL) as loader:
        assert loader.dataset.fields == {} and loader.dataset.get(3) == {}


def test_tensors(load: Any) -> None:
    torch = pytest.importorskip("torch")
    loader = load(framework="torch", target="tags", fields=["age", "caption"], with_index=True)
    for images, targets, ages, captions, indices in loader:
        assert targets.dtype == torch.float32 and targets.shape == (len(images), 7) and ages.dtype == torch.int64
        assert isinstance(captions, list) and indices.shape == ages.shape
        torch.nn.functional.binary_cross_entropy_with_logits(torch.zeros_like(targets), targets)


def test_collated_pickled_and_resumed(load: Any) -> None:
    loader = load(4, target="tags", fields=["age", "caption"], collate_fn=list)
    sample = next(iter(loader))[1]
    image, tags, age, caption = sample
    assert image.shape == (32, 32, 3) and tags.shape == (7,) and type(age) is int and type(caption) is str
    plain = load(8, shuffle=True, seed=1, target="score", fields=["meta"])
    batches = [(score.copy(), meta) for _, score, meta in plain]
    plain.set_epoch(0)
    next(iter(plain))
    state = plain.state_dict()
    with pickle.loads(pickle.dumps(plain)) as other:
        other.load_state_dict(state)
        rest = [(score.copy(), meta) for _, score, meta in other]
    assert all(np.array_equal(a, b) and m == n for (a, m), (b, n) in zip(rest, batches[1:], strict=True))


def test_parquet_of_pyarrow(source: tuple[Path, Values], tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", exc_type=ImportError)
    parquet = pytest.importorskip("pyarrow.parquet", exc_type=ImportError)
    listing, values = source
    keys = sorted(values)[:40]
    columns = {
        "image": pa.array([(listing.parent / key).read_bytes() for key in keys]),
        "label": pa.array([0] * len(keys)),
        "age": pa.array([int(values[key]["age"]) for key in keys], pa.int32()),
        "emb": pa.array([values[key]["emb"].tolist() for key in keys], pa.list_(pa.float32())),
        "tags": pa.array([values[key]["meta"]["tags"] for key in keys], pa.list_(pa.int64())),
        "caption": pa.array([values[key]["caption"] for key in keys]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "train.parquet", row_group_size=16)
    fields = ["age=age", "emb=emb:float32[3]", "tags=tags:multihot[7]", "caption=caption"]
    imgshard("build", tmp_path / "train.parquet", "-o", tmp_path / "set", *(f"--field={field}" for field in fields))
    names = [field.split("=")[0] for field in fields]
    with DataLoader(tmp_path / "set", 8, transform=SMALL, framework="numpy", fields=names, with_index=True) as loader:
        assert loader.dataset.fields == {"age": "int64", "emb": "float32[3]", "tags": "float32[7]", "caption": "text"}
        for _, _, *got, index in loader:
            for k, i in enumerate(index):
                want = values[keys[int(loader.dataset.key(int(i)).split("/")[1])]]
                assert all(equal(column[k], want[name]) for name, column in zip(names, got, strict=True))


def test_blank_values(source: tuple[Path, Values], tmp_path: Path) -> None:
    out = tmp_path / "train-shards"
    imgshard("build", source[0], "-o", out, *(f"--field={flag}" for flag in FLAGS))
    shard = next(out.rglob("*.imgshard"))
    data = bytearray(shard.read_bytes())
    data[2000] ^= 1  # in the first record
    shard.write_bytes(data)
    with DataLoader(out, 8, transform=SMALL, framework="numpy", on_error="blank", target="tags", fields=NAMES) as loader:
        _, target, score, tags, caption, meta, emb, age, pair, mask = next(iter(loader))
        assert np.isnan(target[0]).all() and np.isnan(score[0]) and np.isnan(tags[0]).all() and np.isnan(emb[0]).all()
        assert (caption[0], meta[0], age[0], pair[0].tolist(), mask[0]) == ("", None, 0, [0, 0], b"")
        assert not np.isnan(target[1:]).any()


def test_lists_repacked(source: tuple[Path, Values], tmp_path: Path) -> None:
    """A CSV list gives the values that the files give, and a repacked set has them too."""
    listing, values = source
    with (tmp_path / "list.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "label", "points", "tags", "words"])
        for key, value in values.items():
            tags = " ".join(str(t) for t in value["meta"]["tags"])
            out.writerow([key, 0, value["score"], tags, value["caption"]])
    fields = ("--field", "score=points:float32", "--field", "tags=tags:multihot[7]", "--field", "caption=words")
    imgshard("build", tmp_path / "list.csv", "--images", listing.parent, "-o", tmp_path / "set", *fields)
    imgshard("repack", tmp_path / "set", "-o", tmp_path / "small", "--resize", "40")
    imgshard("verify", tmp_path / "small")
    names = ["score", "tags", "caption"]
    with DataLoader(tmp_path / "small", 16, transform=SMALL, framework="numpy", fields=names, with_index=True) as loader:
        for _, labels, *got, index in loader:
            assert not labels.any()
            for k, i in enumerate(index):
                want = values[loader.dataset.key(int(i))]
                assert all(equal(column[k], want[name]) for name, column in zip(names, got, strict=True))
