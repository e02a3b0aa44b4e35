"""The architectures that Frostline can see as embeddings plus layers 1..L: one file each.

A family says where the parts of a Hugging Face model live and what a call of one of its layers needs. Everything above
(running layers, counting parameters, surgery, heads) asks the family and knows no architecture by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frostline.registry import Registry

if TYPE_CHECKING:
    from frostline.encoders.families._family import Family

FAMILIES: Registry[Family] = Registry("model family", package=__name__)
