"""The architectures that Frostline can see as embeddings plus layers 1..L: one file each.

A family says where the parts of a Hugging Face model live and what a call of one of its layers needs. Everything above
(running layers, counting parameters, surgery, heads) asks the family and knows no architecture by name.
"""

from __future__ import annotations

from frostline.encoders.families._family import Family
from frostline.registry import Registry

__all__ = ["FAMILIES", "Family"]

FAMILIES: Registry[Family] = Registry("model family", package=__name__, entry_points="frostline.families")
