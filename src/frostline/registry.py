"""One small class behind every list of choices: families, layer scores, presets, and whatever is added later.

A thing registers itself where it is defined, so adding one is adding one file: command-line choices, the tables in the
docs and the contract tests all read the registry. Registration refuses what would confuse later: a bad name, a name
taken, a missing description. Other distributions register by entry points: each names a module, and importing that
registers.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from frostline.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9]*([-_./][a-z0-9]+)*")
_OPTION_TYPES = (bool, int, float, str)
_logger = logging.getLogger("frostline")


def describe(function: Callable[..., Any], *, skip: Collection[str] = ()) -> tuple[str, dict[str, Any]]:
    """What a plug-in says of itself: the first line of its docstring, and its options with their defaults.

    Args:
        function: its keyword-only parameters are the options that a user can set.
        skip: keyword-only parameters that every plug-in of the kind takes and no user sets, as `seed`.
    """
    summary = (inspect.getdoc(function) or "").split("\n")[0]
    if not summary:
        raise ValueError(f"{function.__module__}.{function.__qualname__} has no docstring to explain it")
    keywords = [one for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    options = {one.name: one.default for one in keywords if one.name not in skip}
    for name, default in options.items():
        if type(default) not in _OPTION_TYPES:
            raise ValueError(f"{function.__module__}.{function.__qualname__}: give option {name!r} a default that is a "
                             "number, a word, True or False")  # fmt: skip
    return summary, options


class Registry(Generic[T]):
    """Named things of one kind, in the order they registered."""

    _is_plugging_in: ClassVar[bool] = False  # whether a module of another distribution is being imported

    def __init__(self, kind: str, *, package: str | None = None, entry_points: str | None = None) -> None:
        """Make an empty registry.

        Args:
            kind: what one entry is called in messages, as in 'layer score'.
            package: the package whose modules hold the entries; imported whole on first look-up.
            entry_points: the group of entry points of other distributions; loaded after the package, on first look-up.
        """
        self.kind = kind
        self._package = package
        self._group = entry_points
        self._entries: dict[str, T] = {}
        self._has_own = package is None
        self._is_loaded = package is None and entry_points is None

    def add(self, name: str, entry: T) -> T:
        """The entry, now known under the name."""
        if Registry._is_plugging_in:
            self._load_own()  # first, so that a name taken is refused to the other distribution
        if not _NAME.fullmatch(name):
            raise ValueError(f"{self.kind} name {name!r}: use lower-case words joined by - _ . or /")
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._entries:
            known = ", ".join(self._entries)
            raise OptionError(f"unknown {self.kind} {name!r}{did_you_mean(name, self._entries)}; known: {known}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._entries)

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def names(self) -> list[str]:
        """The names, in the order of registration."""
        return list(self)

    def items(self) -> list[tuple[str, T]]:
        """Names and entries, in the order of registration."""
        self._load()
        return list(self._entries.items())

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True  # before the imports: the modules may look the registry up while they register
        self._load_own()
        if self._group is not None:
            from importlib.metadata import entry_points  # takes longer than everything else here

            for point in sorted(entry_points(group=self._group), key=lambda one: (_distribution(one), one.name)):
                self._plug_in(point)

    def _load_own(self) -> None:
        if self._has_own or self._package is None:
            return
        self._has_own = True
        package = importlib.import_module(self._package)
        plug_ins = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]
        for name in plug_ins:
            importlib.import_module(f"{self._package}.{name}")

    def _plug_in(self, point: EntryPoint) -> None:
        """Import what another distribution offers; what is wrong with it is one line, and the other choices stay."""
        before, was_plugging_in = dict(self._entries), Registry._is_plugging_in
        Registry._is_plugging_in = True
        try:
            point.load()
        except Exception as error:  # whatever somebody else's module does
            self._entries = before
            reason = (str(error).strip().splitlines() or [""])[0]
            _logger.warning("%s: its %s %r (%s) is left out: %s: %s", _distribution(point), self.kind, point.name,
                            point.value, type(error).__name__, reason)  # fmt: skip
        finally:
            Registry._is_plugging_in = was_plugging_in


def _distribution(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
