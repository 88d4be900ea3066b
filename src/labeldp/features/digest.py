"""Digests of public inputs and of stages: equal content has an equal digest, wherever and in whatever layout it lies."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.inputs import as_array, as_frame, is_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes per step: a strided array is copied a few rows at a time.
_STEP = 1 << 24


def digest_of(X: Any) -> str:
    """SHA-256 of what a stage takes: type, shape and values of an array, a sparse table, a data frame or texts."""
    if hasattr(X, "tocsr"):
        table = X.tocsr()
        parts = [digest_of(part) for part in (table.data, table.indices, table.indptr)]
        return _hash("csr", list(table.shape), *parts)
    if is_frame(X):
        import pyarrow as pa

        from labeldp.release.columns import content_digest

        frame = as_frame(X)
        columns = {str(place): frame[name].to_arrow() for place, name in enumerate(frame.columns)}
        return _hash("frame", [str(name) for name in frame.columns], content_digest(pa.table(columns)))
    array = as_array(X)
    return _digest_of_objects(array) if array.dtype.kind in "OUST" else _digest_of_array(array)


def digest_of_stage(stage: PublicStage) -> dict[str, Any]:
    """Return all that decides what a stage makes of an input: class, parameters, versions."""
    kind = type(stage)
    parameters = stage.get_params(deep=False)
    return {
        "stage": f"{kind.__module__}.{kind.__qualname__}",
        "code": kind.code_version,
        "parameters": {name: plain(parameters[name], name) for name in sorted(parameters.keys() - kind.cosmetic)},
        "libraries": {name: _version(name) for name in ("labeldp", *kind.libraries)},
    }


def digest_of_work(setting: str, stage: PublicStage, train: Any, test: Any) -> str:
    """Return the name of one piece of work: stage, setting and inputs."""
    inputs = [digest_of(train), None if test is None else digest_of(test)]
    return _hash("work", setting, digest_of_stage(stage), *inputs)


def plain(value: Any, name: str) -> Any:
    """Return a parameter as JSON can write it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(part, name) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(value[key], name) for key in sorted(value, key=str)}
    if isinstance(value, np.ndarray):
        return digest_of(value)
    raise InputError(
        f"Expected parameters that can be written down, so that the result can be named and kept, got "
        f"{type(value).__name__} as {name}. Use numbers, texts, lists or arrays."
    )


def _digest_of_array(array: NDArray[Any]) -> str:
    state = hashlib.sha256(f"array {array.dtype.str} {array.shape} ".encode())
    if array.flags.c_contiguous:
        state.update(array.reshape(-1).view(np.uint8).data)
    else:
        rows = max(1, _STEP * len(array) // max(array.nbytes, 1)) if array.ndim else 1
        for start in range(0, len(array), rows):
            state.update(np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def _digest_of_objects(array: NDArray[Any]) -> str:
    """Hash texts and mixtures, each value with its type and length."""
    state = hashlib.sha256(f"objects {array.shape} ".encode())
    for value in array.reshape(-1).tolist():
        text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else repr(value).encode()
        state.update(f"{type(value).__name__} {len(text)} ".encode() + text)
    return state.hexdigest()


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
