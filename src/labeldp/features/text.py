"""Texts as numbers: weighted terms and their leading directions, or hashed terms with nothing to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import EmptyInputError
from labeldp.features.base import PublicStage
from labeldp.features.inputs import as_texts, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Character terms shorter than this are noise; they lie within words.
_SHORTEST = 2


@final
class TextFeatures(PublicStage):
    """Words, runs of words and runs of characters, weighted by rarity (TF-IDF), on their leading singular directions.

    The weight of a term is (1 + log count) (1 + log((1 + n) / (1 + texts with the term))); words and characters are
    each of length one.  Every row that knows a term has length one in the end.

    Parameters
    ----------
    components : int or None
        Singular directions at most; None gives the weighted terms themselves, a csr array.
    words : int
        Longest run of words; 0 for none.
    characters : int
        Longest run of characters, from 2 on; 0 for none.
    least : int
        A term must stand in so many texts.
    terms : int
        Terms at most, of words and of characters: the most frequent ones.
    random_state : int
        For the sketch behind the singular directions.

    Examples:
    --------
    >>> texts = ["a fine day", "a fine night", "rain all day", "rain all night"] * 5
    >>> TextFeatures(components=3).fit_transform(texts).shape
    (20, 3)
    >>> TextFeatures(components=None, characters=0, words=1).fit(texts).get_feature_names_out().tolist()
    ['all', 'day', 'fine', 'night', 'rain']
    """

    libraries = ("numpy", "scipy", "scikit-learn")

    def __init__(
        self,
        components: int | None = 300,
        *,
        words: int = 2,
        characters: int = 5,
        least: int = 2,
        terms: int = 100_000,
        random_state: int = 0,
    ) -> None:
        self.components = components
        self.words = words
        self.characters = characters
        self.least = least
        self.terms = terms
        self.random_state = random_state

    def _read(self, X: Any) -> Any:
        return as_texts(X)

    def _learn(self, X: list[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        whole(1, none=True, components=self.components)
        whole(1, least=self.least, terms=self.terms)
        whole(0, random_state=self.random_state)
        shared = {"min_df": min(self.least, len(X)), "max_features": self.terms, "sublinear_tf": True}
        self.parts_ = []
        for analyzer, span in _analyzers(self.words, self.characters):
            part = TfidfVectorizer(analyzer=analyzer, ngram_range=span, dtype=np.float32, **shared)
            try:
                self.parts_.append(part.fit(X))
            except ValueError as problem:
                raise EmptyInputError(
                    f"Expected a term of kind {analyzer!r} that stands in at least {self.least} texts, got none. Lower "
                    "least, or leave that kind of terms out."
                ) from problem
        names = [name for part in self.parts_ for name in part.get_feature_names_out().tolist()]
        self.axes_: NDArray[np.float32] | None = None
        if self.components is None:
            self.feature_names_out_ = names
        else:
            self.axes_ = _singular(self._weighted(X), min(self.components, len(names), len(X)), self.random_state)
        self.n_features_out_ = len(names) if self.axes_ is None else self.axes_.shape[1]

    def _apply(self, X: list[str]) -> Any:
        weighted = self._weighted(X)
        if self.axes_ is None:
            return weighted
        out = np.asarray(weighted @ self.axes_)
        length = np.linalg.norm(out, axis=1, keepdims=True)
        return out / np.where(length > 0, length, 1)

    def _weighted(self, X: list[str]) -> Any:
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([part.transform(X) for part in self.parts_], format="csr"))


@final
class HashedText(PublicStage):
    """Counts of words and runs of characters in hashed places: nothing is learned, so any texts will do.

    Terms may share a place; a sign by hash makes that cancel on average.  Rows are csr, of length one.

    Parameters
    ----------
    places : int
        Number of columns.
    words : int
        Longest run of words; 0 for none.
    characters : int
        Longest run of characters, from 2 on; 0 for none.

    Examples:
    --------
    >>> HashedText(1024).fit_transform(["a fine day", "rain all night"]).shape
    (2, 1024)
    """

    libraries = ("numpy", "scipy", "scikit-learn")

    def __init__(self, places: int = 2**18, *, words: int = 2, characters: int = 0) -> None:
        self.places = places
        self.words = words
        self.characters = characters

    def _read(self, X: Any) -> Any:
        return as_texts(X)

    def _learn(self, X: list[str]) -> None:
        del X
        whole(1, places=self.places)
        _analyzers(self.words, self.characters)
        self.n_features_out_ = self.places

    def _apply(self, X: list[str]) -> Any:
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        parts = [
            HashingVectorizer(
                n_features=self.places, analyzer=analyzer, ngram_range=span, norm="l2", dtype=np.float32
            ).transform(X)
            for analyzer, span in _analyzers(self.words, self.characters)
        ]
        return csr_array(normalize(sum(parts[1:], parts[0])))


def _analyzers(words: object, characters: object) -> list[tuple[str, tuple[int, int]]]:
    """Return the kinds of terms that are wanted, each with its shortest and longest run."""
    whole(0, words=words)
    whole(0 if characters == 0 else _SHORTEST, characters=characters)
    found: list[tuple[str, Any]] = [("word", (1, words))] if words else []
    found += [("char_wb", (_SHORTEST, characters))] if characters else []
    if not found:
        raise EmptyInputError("Expected words or characters to make terms of, got words=0 and characters=0.")
    return found


def _singular(weighted: Any, count: int, seed: int) -> NDArray[np.float32]:
    """Return the leading right singular vectors, (terms, count), each with its largest entry positive."""
    from sklearn.utils.extmath import randomized_svd

    _, _, rows = randomized_svd(weighted, count, random_state=seed)
    largest = np.abs(rows).argmax(axis=1)
    signs = np.where(rows[np.arange(len(rows)), largest] < 0, -1, 1)
    axes: NDArray[np.float32] = np.ascontiguousarray((rows * signs[:, None]).T.astype(np.float32))
    return axes
