"""Whether a tuned model is a stock Hugging Face model, and whether it can be saved at all."""

from __future__ import annotations

from frostline.encoders.heads import FamilyHead
from frostline.errors import OptionError
from frostline.plans.methods import METHODS
from frostline.records import BaseEncoder
from frostline.training.model import Tunable


def is_stock(tunable: Tunable) -> bool:
    """Whether transformers alone can load the model and compute the same outputs."""
    return why_not_stock(tunable) is None


def why_not_stock(tunable: Tunable) -> str | None:
    """Return a sentence on why the model is not a stock one, or None if it is."""
    if not METHODS[tunable.plan.method].is_stock:
        reason = f"transformers has no class for the method {tunable.plan.method}"
    elif not isinstance(tunable.head, FamilyHead):
        reason = f"transformers has no mean-pooled head for {tunable.encoder.family.title} configured like this one"
    elif not tunable.encoder.is_stock:
        reason = "transformers cannot load the layers in this order"
    else:
        return None
    return f"{reason}: only Frostline can load the saved model, together with the encoder that it was tuned from"


def check_base(tunable: Tunable, base: BaseEncoder) -> None:
    """Refuse a model that could not be loaded again: not a stock one, and its encoder exists in memory only."""
    if (reason := why_not_stock(tunable)) and not base.can_be_loaded_again:
        raise OptionError(
            f"{reason}; {base.name} is in memory only or has been changed: save it first, then tune the saved encoder"
        )
