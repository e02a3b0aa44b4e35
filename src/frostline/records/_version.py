"""The version of everything that Frostline writes."""

from typing import Final, Literal

FORMAT_VERSION: Final[Literal[1]] = 1
