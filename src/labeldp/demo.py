"""The tour: release a private column at three epsilons, learn from it, compare, and draw a picture.

Run it with ``make demo`` or ``python -m labeldp.demo``; ``--data adult`` takes the census table from the folder that
``LABELDP_DATA`` names.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import labeldp as ldp
from labeldp.errors import InputError, LabeldpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

EPSILONS: Final = (0.5, 1.0, 2.0)
ROWS: Final = 50_000
_TEST_ROWS: Final = 20_000
_SEED: Final = 20


@dataclass(frozen=True)
class Data:
    """A table with a private column, and test rows of one's own."""

    name: str
    story: str
    space: ldp.LabelSpace
    train: NDArray[np.float64]
    labels: NDArray[Any]
    test: NDArray[np.float64]
    truth: NDArray[Any]


@dataclass(frozen=True)
class Score:
    """How a model does on the test rows."""

    learner: str
    epsilon: float | None
    accuracy: float
    log_loss: float
    rate: float


def generated(rows: int = ROWS, seed: int = _SEED) -> Data:
    """Return a made-up hospital table: nobody in it is real."""
    rng = np.random.default_rng(seed)
    total = rows + _TEST_ROWS
    age = rng.gamma(9.0, 6.0, total).clip(18, 98)
    stays = rng.poisson(0.03 * age)
    pressure = rng.normal(110 + 0.4 * age, 14.0)
    mass = rng.normal(26.0, 4.5, total)
    smoker = rng.random(total) < 0.24  # a share of smokers
    medicines = rng.poisson(1.0 + 1.2 * stays)
    risk = (
        0.05 * (age - 55)
        + 0.45 * (stays - 1.5)
        + 0.03 * (pressure - 132)
        + 0.06 * (mass - 26)
        + 0.9 * smoker
        + 0.12 * medicines
        - 2.4
    )
    labels = np.where(rng.random(total) < 1 / (1 + np.exp(-1.4 * risk)), "readmitted", "at home")
    table = np.column_stack([age, stays, pressure, mass, smoker, medicines]).astype(float)
    return _split(
        "generated",
        f"A GENERATED table of {rows:,} patients (nobody in it is real): age, stays, blood pressure, body mass, "
        "smoking, medicines. The private column: readmitted within a month, or at home.",
        ldp.LabelSpace(["at home", "readmitted"]),
        (table[:rows], labels[:rows]),
        (table[rows:], labels[rows:]),
    )


def adult(folder: Path) -> Data:
    """Return the census table: the private column is the income."""
    train, test = (_adult_rows(folder / "adult" / f"adult.{part}.gz") for part in ("data", "test"))
    texts = (1, 3, 5, 6, 7, 8, 9, 13)
    values = {column: sorted({row[column] for row in train}) for column in texts}

    def table(rows: list[list[str]]) -> NDArray[np.float64]:
        numbers = np.array([[float(row[c]) for c in (0, 4, 10, 11, 12)] for row in rows])
        numbers[:, 2:4] = np.log1p(numbers[:, 2:4])
        ages = np.column_stack([numbers, numbers[:, 0] ** 2])
        places = [np.array([[row[c] == value for value in values[c]] for row in rows], float) for c in texts]
        return np.column_stack([ages, *places])

    def income(rows: list[list[str]]) -> NDArray[Any]:
        return np.array([row[14].rstrip(".") for row in rows])

    return _split(
        "adult",
        f"The Adult census table, {len(train):,} rows. The private column: income above 50K.",
        ldp.LabelSpace(["<=50K", ">50K"]),
        (table(train), income(train)),
        (table(test), income(test)),
    )


def _adult_rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = (line.strip() for line in file)
        return [line.split(", ") for line in lines if line and not line.startswith("|")]


def _split(name: str, story: str, space: ldp.LabelSpace, train: Any, test: Any) -> Data:  # pairs
    mean, spread = train[0].mean(axis=0), train[0].std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    return Data(name, story, space, (train[0] - mean) / scale, train[1], (test[0] - mean) / scale, test[1])


def _model() -> Any:  # a scikit-learn classifier
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=300)


LEARNERS: Final[dict[str, Callable[[Data, Any], Any]]] = {
    "uncorrected": lambda data, release: _model().fit(data.train, np.asarray(release)),
    "forward-corrected": lambda data, release: ldp.learn.ForwardCorrected(_model()).fit(data.train, release),
    "unbiased": lambda data, release: ldp.learn.UnbiasedLogisticRegression().fit(data.train, release),
}


def scored(learner: str, epsilon: float | None, model: Any, data: Data) -> Score:  # a classifier
    """Measure a model on the test rows."""
    chances = model.predict_proba(data.test)
    place = {label: code for code, label in enumerate(model.classes_)}
    truth = np.array([place[label] for label in data.truth])
    likelihood = chances[np.arange(len(truth)), truth]
    positive = data.space.labels[1]
    return Score(
        learner,
        epsilon,
        float((chances.argmax(axis=1) == truth).mean()),
        float(-np.log(np.maximum(likelihood, 1e-12)).mean()),
        float(chances[:, place[positive]].mean()),
    )


def run(data: Data, *, say: Callable[[Any], None]) -> list[Score]:
    """Release at each epsilon, train every learner, and return the scores."""
    from labeldp.progress import progress

    scores = [scored("without privacy", None, _model().fit(data.train, data.labels), data)]
    with progress("Releasing and learning", len(EPSILONS) * len(LEARNERS), shown=True) as advance:
        for epsilon in EPSILONS:
            release = ldp.privatize(data.labels, ldp.RandomizedResponse(data.space, epsilon=epsilon))
            for name, fit in LEARNERS.items():
                scores.append(scored(name, epsilon, fit(data, release), data))
                advance()
            if epsilon == 1.0:
                promise = release.guarantee.describe()
    say(f"\nWhat a release at epsilon = 1 promises: {promise}\n")
    return scores


def table_of(scores: list[Score], data: Data) -> Any:  # a rich table
    """Return the scores as a table for the terminal."""
    from rich.table import Table

    truth = float((data.truth == data.space.labels[1]).mean())
    table = Table(title=f"{data.name}: {len(data.truth):,} test rows; {data.space.labels[1]}: {truth:.1%} in truth")
    for column in ("epsilon", "learner", "accuracy", "log-loss", f"says {data.space.labels[1]}"):
        table.add_column(column, justify="left" if column == "learner" else "right", no_wrap=True)
    for score in scores:
        shown = "none" if score.epsilon is None else f"{score.epsilon:g}"
        style = "bold" if score.learner in ("forward-corrected", "unbiased") else None
        row = (shown, score.learner, f"{score.accuracy:.3f}", f"{score.log_loss:.3f}", f"{score.rate:.1%}")
        table.add_row(*row, style=style)
    return table


def picture(scores: list[Score], data: Data, path: Path) -> None:
    """Draw accuracy and log-loss over epsilon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    clean = scores[0]
    with mpl.rc_context({"svg.hashsalt": "labeldp", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        views = (("accuracy", "accuracy (higher is better)"), ("log_loss", "log-loss (lower is better)"))
        for axes, (field, title) in zip(figure.subplots(1, 2), views, strict=True):
            axes.axhline(getattr(clean, field), color="0.35", linestyle="--", label="without privacy")
            for name, marker in zip(LEARNERS, "sov", strict=True):
                values = [getattr(score, field) for score in scores if score.learner == name]
                axes.plot(EPSILONS, values, marker=marker, label=name)
            axes.set(xlabel="epsilon (smaller is more private)", title=title, xscale="log", xticks=EPSILONS)
            axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        figure.axes[1].legend(fontsize="small")
        figure.suptitle(f"Learning from labels released by randomised response ({data.name} table)")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> int:
    """Run the tour; return the exit status."""
    parser = argparse.ArgumentParser(prog="labeldp.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("generated", "adult"), default="generated")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows to generate (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("demo.svg"), help="the picture (default: %(default)s)")
    options = parser.parse_args(arguments)
    from rich.console import Console

    console = Console()
    start = time.perf_counter()
    try:
        data = _data(options.data, options.rows)
        console.print(data.story)
        scores = run(data, say=console.print)
        console.print(table_of(scores, data))
        picture(scores, data, options.out)
    except LabeldpError as problem:
        print(problem, file=sys.stderr)  # a command's error
        return 2
    console.print(
        f"Uncorrected models believe the noise: their probabilities are wrong. Corrected ones know the channel.\n"
        f"The picture is in {options.out}. Fresh secret coins: run it again and the noise differs. "
        f"({time.perf_counter() - start:.0f} s)"
    )
    return 0


def _data(name: str, rows: int) -> Data:
    if name == "generated":
        if rows < 100:  # fewer teach nothing
            raise InputError(f"Expected at least 100 rows, got {rows}.")
        return generated(rows)
    folder = os.environ.get("LABELDP_DATA")
    if not folder or not (Path(folder) / "adult").is_dir():
        raise InputError(
            "Expected LABELDP_DATA to name a folder with adult/adult.data.gz and adult/adult.test.gz. "
            "Set it, or run the demo without --data to use a generated table."
        )
    return adult(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
