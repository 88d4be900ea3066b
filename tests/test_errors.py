"""The tree of errors: what is drawn is what is built, and an error survives its journeys."""

from __future__ import annotations

import builtins
import copy
import inspect
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from labeldp import errors

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == errors.__name__
}
ERRORS = [kind for kind in CLASSES.values() if issubclass(kind, errors.LabeldpError)]

#: ``|   +-- NameError (also OtherError)     what it means``
_LINE = re.compile(
    r"^(?P<indent>(?:\|   |    )*(?:\+-- )?)(?P<name>[A-Z]\w+)(?: \((?P<also>[^)]*)\))?(?:\s{2,}.*| \S.*)?$"
)


def drawn_tree(docstring: str) -> dict[str, tuple[str | None, str | None]]:
    """Read (parent, built-in class) of every class from the picture."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in inspect.cleandoc(docstring).split("::", 1)[1].splitlines():
        found = _LINE.match(line.removeprefix("    "))
        if not line.startswith("    ") or not found:
            continue
        depth = len(found["indent"]) // 4
        path = [*path[:depth], found["name"]]
        also = found["also"].removeprefix("also ") if found["also"] else None
        tree[found["name"]] = (path[depth - 1] if depth else None, also)
    return tree


def built_tree() -> dict[str, tuple[str | None, str | None]]:
    """Return (parent, built-in class) of every class of the module."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    for name, kind in CLASSES.items():
        ours = [base.__name__ for base in kind.__bases__ if base.__module__ == errors.__name__]
        others = [base.__name__ for base in kind.__bases__ if base.__module__ == "builtins" and base is not Exception]
        assert len(ours) <= 1
        assert len(others) <= 1
        tree[name] = (ours[0] if ours else None, others[0] if others else None)
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    """Every class is drawn once, under its parent, with the built-in exception it also is."""
    drawn = drawn_tree(str(errors.__doc__))

    assert drawn == built_tree()
    assert list(CLASSES) == list(drawn)


def test_the_picture_is_really_read() -> None:
    """A class that is drawn in another place, or without its built-in exception, does not go unnoticed."""
    moved = str(errors.__doc__).replace("|   |   +-- DuplicateIdError ", "|   +-- DuplicateIdError ")
    plain = str(errors.__doc__).replace("InputError (also ValueError)", "InputError")

    assert drawn_tree(moved)["DuplicateIdError"] == ("InputError", None)
    assert drawn_tree(plain)["InputError"] == ("LabeldpError", None)
    assert built_tree() not in (drawn_tree(moved), drawn_tree(plain))


@pytest.mark.parametrize("kind", CLASSES.values(), ids=lambda kind: kind.__name__)
def test_an_error_is_public_and_says_what_it_is(kind: type[Exception]) -> None:
    """The name ends in Error or Warning, is no built-in one, and has a docstring of its own."""
    assert kind.__name__.endswith("Warning" if issubclass(kind, Warning) else "Error")
    assert not hasattr(builtins, kind.__name__)
    assert kind.__doc__
    assert getattr(errors, kind.__name__) is kind


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_context_becomes_attributes(kind: type[errors.LabeldpError]) -> None:
    """What is named beside the message is an attribute, whatever its name; anything else is missing as ever."""
    error = kind("It failed.", size=3, name="n", path="p", message="m")

    assert str(error) == "It failed."
    assert error.args == ("It failed.",)
    assert error.context == {"size": 3, "name": "n", "path": "p", "message": "m"}
    assert [error.size, error.name, error.path, error.message] == [3, "n", "p", "m"]
    with pytest.raises(AttributeError, match="colour"):
        _ = error.colour


_JOURNEYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda e, n=n: pickle.loads(pickle.dumps(e, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("journey", _JOURNEYS)
@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_survives_copies_and_pickles(kind: type[errors.LabeldpError], journey: str) -> None:
    """Type, message, context and notes come back from another process."""
    error = kind("It failed.", size=3, name="n", labels=("a", "b"))
    error.add_note("while testing")

    back = _JOURNEYS[journey](error)

    assert type(back) is kind
    assert str(back) == "It failed."
    assert back.args == error.args
    assert back.context == {"size": 3, "name": "n", "labels": ("a", "b")}
    assert (back.size, back.name) == (3, "n")
    assert back.__notes__ == ["while testing"]


def test_an_error_without_context_has_none() -> None:
    """No context is an empty one, and nothing is found in it."""
    error = errors.InputError("Wrong.")

    assert error.context == {}
    assert not hasattr(error, "value")


def test_an_error_that_was_never_initialised_can_be_looked_at() -> None:
    """Looking for an attribute of a half-made error, as unpickling does, ends in AttributeError, not in a loop."""
    error = errors.LabeldpError.__new__(errors.LabeldpError)

    assert not hasattr(error, "context")
    assert not hasattr(error, "size")


def test_warnings_can_be_told_from_errors() -> None:
    """Every warning is caught as LabeldpWarning and as UserWarning, and none is an error of the tree."""
    kinds = [kind for kind in CLASSES.values() if issubclass(kind, Warning)]

    assert len(kinds) > 1
    assert [] == [kind for kind in kinds if not issubclass(kind, errors.LabeldpWarning) or kind in ERRORS]
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.warn("only this", kind, stacklevel=1)
