"""The data sets: raw public features, raw labels, and a check that both are what the data's README says.

>>> data = load("adult")  # doctest: +SKIP
>>> data  # doctest: +SKIP
DataSet('adult', table, 2 classes, 32561 train and 16281 test rows, official split)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, final

import numpy as np

import labeldp as ldp
from experiments.formats import DataError, matrix, read_csv, read_idx, read_json, read_keel, read_tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NAMES", "SOURCES", "DataError", "DataSet", "Facts", "Source", "load"]

Kind = Literal["images", "table", "text"]
#: Features and labels of some rows.
Part = tuple[Any, "NDArray[Any]"]

_OFFICIAL: Final = "official"
_SEEDED: Final = "seeded 80/20"
_ALIASES: Final = {"tweets": "tweet-sentiment-extraction"}


@final
@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Rows to train on and rows to test with; arrays are read-only, since all runs share them.

    Features are images (uint8, rows first), a pyarrow table or an array, or a list of texts.
    Labels are those of ``space``; ``train_codes`` and ``test_codes`` are their places in it.
    """

    name: str
    space: ldp.LabelSpace
    train: Any
    test: Any
    train_labels: NDArray[Any]
    test_labels: NDArray[Any]
    kind: Kind
    #: Who split the rows: the publisher, or we.
    split: str = _OFFICIAL

    @property
    def train_codes(self) -> NDArray[Any]:
        """The training labels as codes 0 .. K-1."""
        return self.space.encode(self.train_labels)

    @property
    def test_codes(self) -> NDArray[Any]:
        """The test labels as codes 0 .. K-1."""
        return self.space.encode(self.test_labels)

    def part(self, train: int | None = None, test: int | None = None, seed: int = 0) -> DataSet:
        """Return at most so many rows of each half, chosen at random and left in their order."""
        rows, labels = _some((self.train, self.train_labels), train, seed)
        test_rows, test_labels = _some((self.test, self.test_labels), test, seed + 1)
        return replace(self, train=rows, train_labels=labels, test=test_rows, test_labels=test_labels)

    def __repr__(self) -> str:
        return (
            f"DataSet({self.name!r}, {self.kind}, {self.space.size} classes, {len(self.train_labels)} train and "
            f"{len(self.test_labels)} test rows, {self.split} split)"
        )


@final
@dataclass(frozen=True)
class Facts:
    """What must be true of a data set: shapes, and rows of each label in the order of the space."""

    shape: tuple[int, ...]
    counts: tuple[int, ...]
    test_shape: tuple[int, ...] | None = None
    test_counts: tuple[int, ...] | None = None


@final
@dataclass(frozen=True)
class Source:
    """How a data set is read; without an official test part the rows are split 80/20, always in the same way."""

    folder: str
    kind: Kind
    space: ldp.LabelSpace
    read: Callable[[Path], Sequence[Part]]
    facts: Facts


def load(name: str, folder: Path | None = None, facts: Facts | None = None) -> DataSet:
    """Return a data set from ``folder``, by default the one that LABELDP_DATA names, and keep it in memory."""
    name = _ALIASES.get(name, name)
    if name not in SOURCES:
        raise DataError(f"Expected one of {', '.join(SOURCES)}, got {name!r}.")
    return _loaded(name, _data_folder() if folder is None else folder, facts or SOURCES[name].facts)


def _data_folder() -> Path:
    named = os.environ.get("LABELDP_DATA", "")
    if not named:
        raise DataError(
            "Expected LABELDP_DATA to name the folder of the data sets, got nothing. "
            "Set it, such as in: LABELDP_DATA=~/data make experiments"
        )
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"Expected LABELDP_DATA to name a folder, got {named!r}, which is none.")
    return folder


@lru_cache(maxsize=4)
def _loaded(name: str, folder: Path, facts: Facts) -> DataSet:
    source = SOURCES[name]
    home = folder / source.folder
    if not home.is_dir():
        raise DataError(f"Expected the folder {home} for the data set {name}, got nothing.")
    parts = source.read(home)
    _verify(name, source.space, parts, facts)
    official = len(parts) == 2
    train, test = parts if official else _split(parts[0])
    for values in (*train, *test):
        if isinstance(values, np.ndarray):
            values.flags.writeable = False
    split = _OFFICIAL if official else _SEEDED
    return DataSet(name, source.space, train[0], test[0], train[1], test[1], source.kind, split)


def _verify(name: str, space: ldp.LabelSpace, parts: Sequence[Part], facts: Facts) -> None:
    expected = [(facts.shape, facts.counts), (facts.test_shape, facts.test_counts)][: len(parts)]
    for (features, labels), (shape, counts) in zip(parts, expected, strict=True):
        found = (len(features),) if isinstance(features, list) else tuple(features.shape)
        if found != shape or len(labels) != found[0]:
            raise DataError(f"Expected {name} to have shape {shape}, got {found} with {len(labels)} labels.")
        tally = tuple(np.bincount(space.encode(labels), minlength=space.size).tolist())
        if tally != counts:
            raise DataError(f"Expected {name} to have label counts {counts}, got {tally}.")


def _split(part: Part) -> tuple[Part, Part]:
    order = _order(len(part[1]), seed=0)
    tested = len(order) // 5
    return _taken(part, order[tested:]), _taken(part, order[:tested])


def _some(part: Part, most: int | None, seed: int) -> Part:
    if most is None or most >= len(part[1]):
        return part
    return _taken(part, np.sort(_order(len(part[1]), seed)[:most]))


def _order(rows: int, seed: int) -> NDArray[Any]:
    # The old generator: its stream is promised never to change, so neither will a split.
    return np.random.RandomState(seed).permutation(rows)


def _taken(part: Part, places: NDArray[Any]) -> Part:
    features, labels = part
    if isinstance(features, list):
        return [features[place] for place in places], labels[places]
    return features.take(places) if hasattr(features, "column_names") else features[places], labels[places]


# ---- one reader for each data set ---------------------------------------------------------------------


def _read_digits(home: Path) -> list[Part]:
    parts = []
    for half in ("train", "t10k"):
        images, labels = (
            read_idx(home / f"{half}-images-idx3-ubyte.gz"),
            read_idx(home / f"{half}-labels-idx1-ubyte.gz"),
        )
        parts.append((images, labels))
    return parts


def _read_cifar10(home: Path) -> list[Part]:
    train = [home / f"data_batch_{batch}.webp" for batch in range(1, 6)]
    return [
        (_tiles(train, 32), np.array(read_json(home / "train_labels.json"))),
        (_tiles([home / "test_batch.webp"], 32), np.array(read_json(home / "test_labels.json"))),
    ]


def _tiles(paths: Sequence[Path], side: int) -> NDArray[np.uint8]:
    """Decode pictures of tiles, or find them decoded in the folder that LABELDP_CACHE names."""
    cache = os.environ.get("LABELDP_CACHE", "")
    if not cache:
        return np.concatenate([read_tiles(path, side) for path in paths])
    digest = hashlib.sha256()
    for path in paths:
        if path.is_file():
            digest.update(path.read_bytes())
    kept = Path(cache).expanduser() / f"tiles-{side}-{digest.hexdigest()[:32]}.npy"
    if not kept.exists():
        decoded = np.concatenate([read_tiles(path, side) for path in paths])
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            np.save(file, decoded)
        temporary.replace(kept)
    array: NDArray[np.uint8] = np.load(kept)
    return array


_ADULT: Final = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def _read_adult(home: Path) -> list[Part]:
    from pyarrow import compute

    parts = []
    for half in ("data", "test"):
        table = read_csv(home / f"adult.{half}.gz", _ADULT, missing=["?"], comment=b"|")
        labels = compute.utf8_rtrim(table.column("income"), characters=".").to_numpy()
        parts.append((table.drop_columns("income"), labels.astype(str)))
    return parts


def _read_keel(home: Path, name: str, kind: str, labels: str) -> list[Part]:
    path = home / f"{name}.dat.gz"
    table, last = read_keel(path)
    return [(matrix(table, kind, path), last.astype(labels))]


def _read_skin(home: Path) -> list[Part]:
    path = home / "Skin_NonSkin.txt.gz"
    table = read_csv(path, ("blue", "green", "red", "class"), delimiter="\t")
    return [(matrix(table.drop_columns("class"), "u1", path), table.column("class").to_numpy())]


def _read_tweets(home: Path) -> list[Part]:
    from pyarrow import compute

    table = read_csv(home / "train.csv.gz")
    table = table.filter(compute.not_equal(compute.utf8_trim_whitespace(table.column("text")), ""))
    return [(table.column("text").to_pylist(), table.column("sentiment").to_numpy().astype(str))]


_KDD: Final = (
    "duration", "protocol_type", "service", "flag", "src_bytes", "dst_bytes", "land", "wrong_fragment", "urgent",
    "hot", "num_failed_logins", "logged_in", "num_compromised", "root_shell", "su_attempted", "num_root",
    "num_file_creations", "num_shells", "num_access_files", "num_outbound_cmds", "is_host_login", "is_guest_login",
    "count", "srv_count", "serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate",
    "diff_srv_rate", "srv_diff_host_rate", "dst_host_count", "dst_host_srv_count", "dst_host_same_srv_rate",
    "dst_host_diff_srv_rate", "dst_host_same_src_port_rate", "dst_host_srv_diff_host_rate", "dst_host_serror_rate",
    "dst_host_srv_serror_rate", "dst_host_rerror_rate", "dst_host_srv_rerror_rate", "label",
)  # fmt: skip


def _read_kddcup99(home: Path) -> list[Part]:
    from pyarrow import compute

    table = read_csv(home / "kddcup.data_10_percent.gz", _KDD)
    labels = compute.utf8_rtrim(table.column("label"), characters=".").to_numpy()
    return [(table.drop_columns("label"), labels.astype(str))]


# ---- what they are, as the data's README says ----------------------------------------------------------

_DIGITS: Final = ldp.LabelSpace(range(10))
_LETTERS: Final = {
    "A": 789, "B": 766, "C": 736, "D": 805, "E": 768, "F": 775, "G": 773, "H": 734, "I": 755, "J": 747, "K": 739,
    "L": 761, "M": 792, "N": 783, "O": 753, "P": 803, "Q": 783, "R": 758, "S": 748, "T": 796, "U": 813, "V": 764,
    "W": 752, "X": 787, "Y": 786, "Z": 734,
}  # fmt: skip
_ATTACKS: Final = {
    "smurf": 280790, "neptune": 107201, "normal": 97278, "back": 2203, "satan": 1589, "ipsweep": 1247,
    "portsweep": 1040, "warezclient": 1020, "teardrop": 979, "pod": 264, "nmap": 231, "guess_passwd": 53,
    "buffer_overflow": 30, "land": 21, "warezmaster": 20, "imap": 12, "rootkit": 10, "loadmodule": 9, "ftp_write": 8,
    "multihop": 7, "phf": 4, "perl": 3, "spy": 2,
}  # fmt: skip


def _evenly(rows: int) -> tuple[int, ...]:
    return (rows // 10,) * 10


SOURCES: Final[dict[str, Source]] = {
    "mnist": Source(
        "mnist",
        "images",
        _DIGITS,
        _read_digits,
        Facts(
            (60_000, 28, 28),
            (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            (10_000, 28, 28),
            (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
        ),
    ),
    "fashion-mnist": Source(
        "fashion-mnist",
        "images",
        _DIGITS,
        _read_digits,
        Facts((60_000, 28, 28), _evenly(60_000), (10_000, 28, 28), _evenly(10_000)),
    ),
    "cifar10": Source(
        "cifar10",
        "images",
        _DIGITS,
        _read_cifar10,
        Facts((50_000, 32, 32, 3), _evenly(50_000), (10_000, 32, 32, 3), _evenly(10_000)),
    ),
    "adult": Source(
        "adult",
        "table",
        ldp.LabelSpace(["<=50K", ">50K"]),
        _read_adult,
        Facts((32_561, 14), (24_720, 7_841), (16_281, 14), (12_435, 3_846)),
    ),
    "letter": Source(
        "keel",
        "table",
        ldp.LabelSpace(list(_LETTERS)),
        partial(_read_keel, name="letter", kind="u1", labels="U"),
        Facts((20_000, 16), tuple(_LETTERS.values())),
    ),
    "optdigits": Source(
        "keel",
        "table",
        _DIGITS,
        partial(_read_keel, name="optdigits", kind="u1", labels="i8"),
        Facts((5_620, 64), (554, 571, 557, 572, 568, 558, 558, 566, 554, 562)),
    ),
    "magic": Source(
        "keel",
        "table",
        ldp.LabelSpace(["g", "h"]),
        partial(_read_keel, name="magic", kind="f8", labels="U"),
        Facts((19_020, 10), (12_332, 6_688)),
    ),
    "skin": Source("skin", "table", ldp.LabelSpace([1, 2]), _read_skin, Facts((245_057, 3), (50_859, 194_198))),
    "tweet-sentiment-extraction": Source(
        "tweet-sentiment-extraction",
        "text",
        ldp.LabelSpace(["negative", "neutral", "positive"]),
        _read_tweets,
        # One row, a neutral one, has no text.
        Facts((27_480,), (7_781, 11_117, 8_582)),
    ),
    "kddcup99": Source(
        "kddcup99",
        "table",
        ldp.LabelSpace(list(_ATTACKS)),
        _read_kddcup99,
        Facts((494_021, 41), tuple(_ATTACKS.values())),
    ),
}
NAMES: Final = tuple(SOURCES)
