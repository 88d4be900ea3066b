"""Reading public inputs: tables of numbers, images, texts.  What does not fit is refused with words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import EmptyInputError, InputError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Float images may leave [0, 1] by this much: resampling rounds.
_SLACK = 1e-3
_COLOURS = (1, 3)


def is_frame(X: object) -> bool:
    """Whether ``X`` is a table with named columns."""
    # Of its type: to name its columns a lazy frame would have to work.
    return hasattr(type(X), "columns") or hasattr(type(X), "column_names")


def as_frame(X: Any) -> Any:
    """Return a table with named columns as a narwhals data frame, without importing anybody's library."""
    import narwhals as nw

    try:
        frame = nw.from_native(X, eager_only=True)
        names = [str(name) for name in frame.columns]
    except nw.exceptions.NarwhalsError as problem:
        raise InputError(f"Expected columns of different names, got: {problem} Rename some.") from problem
    except TypeError as problem:
        raise InputError(
            f"Expected a table in memory, of pandas, polars or pyarrow, got {type(X).__name__}. Collect a lazy one first."
        ) from problem
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"Expected columns of different names, got {twice!r} 2 times. Rename one.", column=twice)
    return frame


def column_names(X: Any) -> list[str] | None:
    """Return the names of the columns, if they have names and all are texts."""
    if not (is_frame(X) and hasattr(type(X), "shape")):
        return None
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    return names if all(isinstance(name, str) for name in names) else None


def as_matrix(X: Any, *, sparse: bool = False) -> Any:
    """Return rows of finite numbers: a float32 or float64 array, or a csr array where ``sparse`` allows it."""
    if hasattr(X, "tocsr"):
        if not sparse:
            raise InputError(f"Expected a dense table, got a sparse {type(X).__name__}. Pass X.toarray() if it fits.")
        from scipy.sparse import csr_array

        table = csr_array(X)
        table.data = _floats(table.data)
        _check_rows(table.shape)
        _check_finite(table.data)
        return table
    array = _frame_values(X) if is_frame(X) else as_array(X)
    if array.ndim != 2:
        raise ShapeError(
            f"Expected a table of shape (rows, columns), got shape {array.shape}. Reshape one column with "
            "X.reshape(-1, 1), images with X.reshape(len(X), -1).",
            shape=array.shape,
        )
    _check_rows(array.shape)
    array = _floats(array)
    _check_finite(array)
    return array


def as_images(X: Any, shape: Any = None) -> NDArray[Any]:
    """Return images as (n, height, width, colours): uint8, or float32 from 0 to 1.

    Flat rows need ``shape``, (height, width) or (height, width, colours).
    """
    array = _frame_values(X) if is_frame(X) else as_array(X)
    _check_rows(array.shape)
    wanted = _image_shape(shape)
    if array.ndim == 2:
        if wanted is None or array.shape[1] != int(np.prod(wanted)):
            pixels = "" if wanted is None else f" of {int(np.prod(wanted))} pixels for shape={tuple(wanted)}"
            raise ShapeError(
                f"Expected images (n, height, width) or (n, height, width, colours), or flat rows{pixels}, got shape "
                f"{array.shape}. Say how flat rows fold, such as shape=(28, 28) or shape=(32, 32, 3).",
                shape=array.shape,
            )
        array = array.reshape(len(array), *wanted)
    elif array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in _COLOURS:
        raise ShapeError(
            f"Expected images (n, height, width) or (n, height, width, colours) of 1 or 3 colours, got shape "
            f"{array.shape}. If colours come first, move them: X.transpose(0, 2, 3, 1).",
            shape=array.shape,
        )
    if wanted is not None and array.shape[1:] != wanted:
        raise ShapeError(f"Expected images of shape {wanted}, got {array.shape[1:]}.", shape=array.shape)
    return _pixels(array)


def as_pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images as float32 from 0 to 1."""
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    return images.astype(np.float32, copy=False)


def as_texts(X: Any) -> list[str]:
    """Return texts, one a row."""
    if isinstance(X, str | bytes):
        raise ShapeError("Expected a list of texts, got one text. Put it into a list.")
    if is_frame(X):
        frame = as_frame(X)
        if frame.shape[1] != 1:
            raise ShapeError(f"Expected one column of texts, got {frame.shape[1]}. Choose one: X['text'], say.")
        values: Any = frame[frame.columns[0]].to_list()
    else:
        listing = next((name for name in ("to_pylist", "to_list", "tolist") if hasattr(X, name)), None)
        values = X if listing is None else getattr(X, listing)()
    try:
        texts = list(values)
    except TypeError as problem:
        raise InputError(f"Expected a list of texts, got {type(X).__name__}.") from problem
    _check_rows((len(texts),))
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"Expected texts, got {type(text).__name__} in row {place}. Write a missing text as ''.", row=place
            )
    return texts


def as_array(X: Any) -> NDArray[Any]:
    """Return ``X`` as an array, nothing masked."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError("Expected an array without a mask. Fill the masked places first: X.filled(...).")
    try:
        return np.asarray(X)
    except (ValueError, TypeError) as problem:
        raise ShapeError("Expected rows of one length, got rows of several.") from problem


def whole(least: int, /, *, none: bool = False, **values: object) -> None:
    """Check that parameters are integers from ``least`` upwards."""
    for name, value in values.items():
        if none and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            also = " or None" if none else ""
            raise InputError(
                f"Expected {name} to be an integer from {least} upwards{also}, got {value!r}.", value=value
            )


def at_least(least: float, /, **values: object) -> None:
    """Check that parameters are finite numbers, not less than ``least``."""
    for name, value in values.items():
        number = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
        if not (number and np.isfinite(value) and value >= least):  # type: ignore[call-overload, operator]  # a number
            raise InputError(f"Expected {name} to be a number >= {least:g}, got {value!r}.", value=value)


def one_of(choices: tuple[str, ...], /, **values: object) -> None:
    """Check that parameters are among the choices."""
    for name, value in values.items():
        if value not in choices:
            shown = ", ".join(map(repr, choices))
            raise InputError(f"Expected {name} to be one of {shown}, got {value!r}.", value=value)


def _frame_values(X: Any) -> NDArray[Any]:
    frame = as_frame(X)
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            raise InputError(
                f"Expected columns of numbers, got {kind} in column {name!r}. Encode mixed tables with TableFeatures.",
                column=name,
            )
    return np.asarray(frame.to_numpy())


def _floats(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"Expected numbers, got an array of type {array.dtype}. Encode mixed tables with TableFeatures, texts with "
            "TextFeatures.",
            dtype=array.dtype,
        )
    narrow = array.dtype.itemsize <= (4 if array.dtype.kind == "f" else 2)
    return np.asarray(array, np.float32 if narrow else np.float64)


def _check_rows(shape: tuple[int, ...]) -> None:
    if not shape or 0 in shape:
        raise EmptyInputError(f"Expected at least one row and one column, got shape {shape}.", shape=shape)


def _check_finite(array: NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(array.sum()):  # one pass and no copy; a sum that overflows is looked at again
            return
    finite = np.isfinite(array)
    if not finite.all():
        place = tuple(int(index) for index in np.argwhere(~finite)[0])
        raise InputError(
            f"Expected finite numbers, got {int((~finite).sum())} that are missing or infinite, the first at {place}. "
            "Fill them, or encode the table with TableFeatures, which knows missing values.",
            place=place,
        )


def _image_shape(shape: Any) -> tuple[int, int, int] | None:
    if shape is None:
        return None
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    if len(sides) not in (2, 3):
        raise InputError(f"Expected shape=(height, width) or (height, width, colours), got {shape!r}.", value=shape)
    for side in sides:
        whole(1, side=side)
    return (*sides, 1) if len(sides) == 2 else sides


def _pixels(array: NDArray[Any]) -> NDArray[Any]:
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return array
    if kind == "b":
        return array.astype(np.uint8) * np.uint8(255)
    if kind in "iu":
        low, high = int(array.min()), int(array.max())
        if low < 0 or high > 255:
            raise InputError(f"Expected integer pixels from 0 to 255, got {low} to {high}.", low=low, high=high)
        return array.astype(np.uint8)
    if kind != "f":
        raise InputError(f"Expected pixels as uint8 or floats, got an array of type {array.dtype}.", dtype=array.dtype)
    _check_finite(array)
    least, most = float(array.min()), float(array.max())
    if least < -_SLACK or most > 1 + _SLACK:
        raise InputError(
            f"Expected float pixels from 0 to 1, got {least:g} to {most:g}. Divide by 255, or pass uint8.",
            low=least,
            high=most,
        )
    return array.astype(np.float32, copy=False)
