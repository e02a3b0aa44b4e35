"""The architectures that Frostline can treat as embeddings plus layers 1..L: one file each.

A family defines where the parts of a Hugging Face model are and how one of its layers is called. All other code
(running layers, counting parameters, surgery, heads) asks the family and mentions no architecture by name.
"""

from __future__ import annotations

from frostline.encoders.families._family import Family
from frostline.registry import Registry

__all__ = ["FAMILIES", "Family"]

FAMILIES: Registry[Family] = Registry("model family", package=__name__, entry_points="frostline.families")
