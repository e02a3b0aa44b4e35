"""One small class behind every list of choices: families, layer scores, presets and so on.

An entry registers itself where it is defined, so adding one means adding one file: command-line choices, the tables in
the docs and the contract tests all read the registry. Registration refuses malformed names, duplicate names and missing
descriptions. Other distributions register through entry points: each names a module that registers when it is imported.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from frostline.errors import OptionError, did_you_mean, first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9]*([-_./][a-z0-9]+)*")
_OPTION_TYPES = (bool, int, float, str)
_logger = logging.getLogger("frostline")


def describe(function: Callable[..., Any], *, skip: Collection[str] = ()) -> tuple[str, dict[str, Any]]:
    """Return the first line of a plug-in's docstring, and its options with their defaults.

    Args:
        function: the plug-in; its keyword-only parameters are the options that a user can set.
        skip: keyword-only parameters that are not options, such as `seed`.
    """
    summary = (inspect.getdoc(function) or "").split("\n")[0]
    if not summary:
        raise ValueError(f"{function.__module__}.{function.__qualname__} has no docstring to explain it")
    parameters = inspect.signature(function).parameters.values()
    options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in skip}
    for name, default in options.items():
        if type(default) not in _OPTION_TYPES:
            raise ValueError(f"{function.__module__}.{function.__qualname__}: give option {name!r} a default that is a "
                             "number, a word, True or False")  # fmt: skip
    return summary, options


class Registry(Generic[T]):
    """Named entries of one kind, in the order of registration."""

    _is_plugging_in: ClassVar[bool] = False  # whether a module of another distribution is being imported

    def __init__(self, kind: str, *, package: str | None = None, entry_points: str | None = None) -> None:
        """Make an empty registry.

        Args:
            kind: the name of one entry in messages, such as 'layer score'.
            package: the package whose modules hold the entries; all of them are imported on first look-up.
            entry_points: the group of entry points of other distributions; loaded after the package, on first look-up.
        """
        self.kind = kind
        self._package = package  # None once it is imported
        self._group = entry_points
        self._entries: dict[str, T] = {}
        self._is_loaded = False

    def add(self, name: str, entry: T) -> T:
        """Register an entry under the name and return it."""
        if Registry._is_plugging_in:
            self._load_own()  # first, so that another distribution cannot take the name of a built-in entry
        if not _NAME.fullmatch(name):
            raise ValueError(f"{self.kind} name {name!r}: use lower-case words joined by - _ . or /")
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise OptionError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, self._entries)}; known: {', '.join(self._entries)}"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._load()

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def names(self) -> list[str]:
        """Return the names, in the order of registration."""
        return list(self)

    def items(self) -> list[tuple[str, T]]:
        """Return names and entries, in the order of registration."""
        return list(self._load().items())

    def _load(self) -> dict[str, T]:
        if self._is_loaded:
            return self._entries
        self._is_loaded = True  # before the imports: the modules may look the registry up while they register
        self._load_own()
        if self._group is not None:
            from importlib.metadata import entry_points  # takes longer than everything else here

            for point in sorted(entry_points(group=self._group), key=lambda point: (_distribution(point), point.name)):
                self._plug_in(point)
        return self._entries

    def _load_own(self) -> None:
        package, self._package = self._package, None
        if package is None:
            return
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{package}.{module.name}")

    def _plug_in(self, point: EntryPoint) -> None:
        """Import the entries of another distribution; if that fails, log one line and keep the other entries."""
        before, was_plugging_in = dict(self._entries), Registry._is_plugging_in
        Registry._is_plugging_in = True
        try:
            point.load()
        except Exception as error:  # a foreign module may raise anything
            self._entries = before
            _logger.warning("%s: its %s %r (%s) is left out: %s: %s", _distribution(point), self.kind, point.name,
                            point.value, type(error).__name__, first_line(error))  # fmt: skip
        finally:
            Registry._is_plugging_in = was_plugging_in


def _distribution(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
