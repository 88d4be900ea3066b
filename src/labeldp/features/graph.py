"""Embeddings of the graph of nearest neighbours: rows that are close along the data come close in few dimensions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.extras import needed
from labeldp.features.inputs import as_matrix, at_least, one_of, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

#: Weak links from every row to all, as a share of the mean degree: they tie separate parts of the graph together.
_TIES: Final = 1e-3
#: Rows up to which the eigenvectors are found directly.
_SMALL: Final = 1000


@final
class SpectralEmbedding(PublicStage):
    """Leading eigenvectors of the graph of nearest neighbours (Laplacian eigenmaps), needing no extra.

    Row i and a neighbour j are linked by exp(-d_ij^2 / (s_i s_j)) with s_i the distance to the furthest neighbour.  Of
    the normalised links D^-1/2 A D^-1/2, weakly tied together where the graph falls apart, the leading eigenvectors u
    but the first are taken; row i gets u_i / sqrt(degree_i), scaled to variance one and times the eigenvalue.  A new
    row gets the mean of its neighbours, weighted by its links: what the rows of the fit fulfil too, up to the scale.

    Parameters
    ----------
    components : int
        Dimensions; fewer than there are rows.
    neighbors : int
        Neighbours of a row, at most as many as there are others.
    metric : str
        A distance of scikit-learn's nearest neighbours.
    random_state : int
        Where the search for eigenvectors starts.

    Attributes:
    ----------
    embedding_ : array (n, components), the rows of the fit
    eigenvalues_ : array (components,)

    Examples:
    --------
    >>> angle = np.linspace(0, 6.28, 200, endpoint=False)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> SpectralEmbedding(2, neighbors=5).fit_transform(ring).shape
    (200, 2)
    """

    libraries = ("numpy", "scipy", "scikit-learn")

    def __init__(
        self, components: int = 8, *, neighbors: int = 15, metric: str = "euclidean", random_state: int = 0
    ) -> None:
        self.components = components
        self.neighbors = neighbors
        self.metric = metric
        self.random_state = random_state

    def _read(self, X: Any) -> Any:
        return as_matrix(X)

    def _learn(self, X: Floats) -> None:
        whole(1, components=self.components, neighbors=self.neighbors)
        whole(0, random_state=self.random_state)
        _check_enough(len(X), self.components)
        self.searcher_ = _searcher(X, min(self.neighbors, len(X) - 1), self.metric)
        distances, places = self.searcher_.kneighbors()
        self.reach_ = distances[:, -1].astype(np.float64)
        links = _links(distances, places, self.reach_, self.reach_)
        links = (links + links.T) / 2
        degrees = np.asarray(links.sum(axis=1)).ravel()
        values, vectors = _leading(links, degrees, self.components + 1, self.random_state)
        vectors = vectors / np.sqrt(degrees + _TIES * degrees.mean())[:, None]
        vectors = vectors[:, 1:] - vectors[:, 1:].mean(axis=0)
        spread = vectors.std(axis=0)
        signs = np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(self.components)] < 0, -1.0, 1.0)
        self.eigenvalues_ = values[1:]
        scale = signs * np.abs(self.eigenvalues_) / np.where(spread > 0, spread, np.inf)
        self.embedding_ = (vectors * scale).astype(X.dtype)
        self.n_features_out_ = self.components

    def _apply(self, X: Floats) -> Any:
        distances, places = self.searcher_.kneighbors(X)
        # A row of the fit is its own nearest neighbour, and stays where it is.
        links = _links(distances, places, distances[:, -1].astype(np.float64), self.reach_)
        own = distances[:, 0] <= 1e-6 * distances[:, -1]
        found = links @ self.embedding_.astype(np.float64)
        found /= np.asarray(links.sum(axis=1)).ravel()[:, None]
        found[own] = self.embedding_[places[own, 0]]
        return found.astype(self.embedding_.dtype)


@final
class UmapEmbedding(PublicStage):
    """UMAP (McInnes, Healy, Melville 2018): clusters and neighbourhoods kept in few dimensions.

    It needs the extra ``umap``: ``pip install 'labeldp[umap]'``; :class:`SpectralEmbedding` needs none.  With its
    fixed ``random_state`` it runs on one core.  Distances between clusters mean little: it serves neighbours and
    clustering better than linear models.

    Parameters
    ----------
    components : int
        Dimensions.
    neighbors : int
        Neighbours of a row, at most as many as there are others.
    min_dist : float
        How close rows may come: 0 packs clusters tightly.
    metric : str
        A distance of umap-learn's.
    epochs : int or None
        Rounds of the layout; None leaves it to umap-learn.
    random_state : int
        For the start and the layout.
    verbose : bool
        Show umap-learn's progress.

    Attributes:
    ----------
    embedding_ : array (n, components), the rows of the fit

    Examples:
    --------
    >>> UmapEmbedding(neighbors=30)
    UmapEmbedding(neighbors=30)
    """

    libraries = ("numpy", "scikit-learn", "umap-learn", "pynndescent", "numba")

    def __init__(
        self,
        components: int = 8,
        *,
        neighbors: int = 15,
        min_dist: float = 0.0,
        metric: str = "euclidean",
        epochs: int | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.components = components
        self.neighbors = neighbors
        self.min_dist = min_dist
        self.metric = metric
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Any) -> Any:
        return as_matrix(X)

    def _learn(self, X: Floats) -> None:
        whole(1, components=self.components, neighbors=self.neighbors)
        whole(1, none=True, epochs=self.epochs)
        whole(0, random_state=self.random_state)
        at_least(0, min_dist=self.min_dist)
        umap = needed("umap", extra="umap", by="UmapEmbedding")
        # Its spectral start asks for more rows than dimensions.
        _check_enough(len(X), self.components)
        self.umap_ = umap.UMAP(
            n_components=self.components,
            n_neighbors=max(2, min(self.neighbors, len(X) - 1)),
            min_dist=self.min_dist,
            metric=self.metric,
            n_epochs=self.epochs,
            random_state=self.random_state,
            n_jobs=1,
            verbose=self.verbose,
        )
        with warnings.catch_warnings():
            # A graph in several parts is common, and umap-learn copes.
            warnings.filterwarnings("ignore", message=".*(disconnected|Spectral init|spectral).*")
            self.embedding_ = np.asarray(self.umap_.fit_transform(np.asarray(X, np.float32)))
        self.n_features_out_ = self.components

    def _apply(self, X: Floats) -> Any:
        return np.asarray(self.umap_.transform(np.asarray(X, np.float32)))


def _check_enough(rows: int, components: int) -> None:
    if rows < components + 2:
        raise InputError(
            f"Expected at least {components + 2} rows for {components} dimensions, got {rows}. Ask for fewer dimensions.",
            rows=rows,
        )


def _searcher(X: Floats, neighbors: int, metric: str) -> Any:
    from sklearn.neighbors import NearestNeighbors

    one_of(("euclidean", "cosine", "manhattan"), metric=metric)
    # By brute force: in more than a few dimensions trees are slower.
    return NearestNeighbors(n_neighbors=neighbors, metric=metric, algorithm="brute").fit(X)


def _links(distances: Floats, places: NDArray[Any], reach: Floats, others: Floats) -> Any:
    """Return exp(-d^2 / (s_i s_j)) for every row and its neighbours, sparse."""
    from scipy.sparse import csr_array

    rows, count = distances.shape
    scale = reach[:, None] * others[places]
    weights = np.exp(-(distances.astype(np.float64) ** 2) / np.where(scale > 0, scale, 1.0))
    ends = np.arange(rows + 1) * count
    # No link underflows to nothing: a row far out still has its neighbours.
    return csr_array((np.maximum(weights, 1e-12).ravel(), places.ravel(), ends), shape=(rows, len(others)))


def _leading(links: Any, degrees: Floats, count: int, seed: int) -> tuple[Floats, Floats]:
    """Return the leading eigenvalues and eigenvectors of D^-1/2 (A + ties) D^-1/2, falling."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows = len(degrees)
    ties = _TIES * degrees.mean()
    root = 1 / np.sqrt(degrees + ties)

    def multiply(vector: Floats) -> Floats:
        inner = root * vector.ravel()
        product: Floats = root * (links @ inner + ties * inner.mean())
        return product

    if rows <= _SMALL:
        table = root[:, None] * (links.toarray() + ties / rows) * root
        values, vectors = np.linalg.eigh(table)
        return values[::-1][:count], vectors[:, ::-1][:, :count]
    operator = LinearOperator((rows, rows), matvec=multiply, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(rows)
    values, vectors = eigsh(operator, k=count, which="LA", v0=start, tol=1e-4, ncv=min(rows, max(4 * count, 60)))
    order = np.argsort(-values)
    return values[order], vectors[:, order]
