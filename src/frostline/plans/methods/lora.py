"""LoRA: low-rank changes to chosen projections, by PEFT, folded into the plain weights at the end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from frostline.encoders.families import FAMILIES
from frostline.errors import OptionError, did_you_mean
from frostline.plans.methods import at_least_one, chosen_layers, method

if TYPE_CHECKING:
    from frostline.training.model import Tunable


def fold_lora(tunable: Tunable) -> None:
    """Add the low-rank changes to the plain weights and restore the plain linear layers."""
    from peft.tuners.lora import LoraLayer

    model = tunable.model
    for name, module in list(model.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, module.get_base_layer())
    if hasattr(model, "peft_config"):
        del model.peft_config


def _check(options: Mapping[str, Any]) -> str | None:
    if reason := at_least_one("rank", "alpha")(options):
        return reason
    if not 0 <= options["dropout"] < 1:
        return f"dropout {options['dropout']}: must be at least 0 and below 1"
    # Of any family: the encoder is not known yet.
    projections = dict.fromkeys(name for _, family in FAMILIES.items() for name in family.projections)
    return _check_targets(options["targets"], projections)


def _check_targets(targets: str, projections: Iterable[str]) -> str | None:
    known = (*projections, "all")
    for word in _words(targets):
        if word not in known:
            near = did_you_mean(word, known)
            return f"targets {targets!r}: unknown {word!r}{near}; known, joined by +: {', '.join(known)}"
    return None


@method(learning_rate=5e-4, is_stock=True, adds_parameters=True, fold=fold_lora, validate=_check)
def lora(
    tunable: Tunable,
    *,
    seed: int,
    rank: int = 8,
    alpha: int = 16,
    dropout: float = 0.0,
    targets: str = "query+value",
) -> None:
    """Low-rank changes to the chosen layers' projections train; at the end they are added to the plain weights.

    W x becomes W x + (alpha / rank) B A x. A starts random and B at zero, so that training starts from the pretrained
    model. Where one projection computes query, key and value, naming any of them means that one. (Hu et al. 2022.)
    """
    names = _module_names(tunable, targets)
    if not names:
        return  # PEFT refuses to adapt nothing; a plan without layers trains only its head
    from peft import LoraConfig, inject_adapter_in_model  # costs seconds

    config = LoraConfig(
        r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="|".join(re.escape(name) for name in names)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, tunable.model)


def _module_names(tunable: Tunable, targets: str) -> list[str]:
    """Return the full names in the model of the chosen layers' target modules, each once."""
    family = tunable.encoder.family
    projections = family.projections
    if reason := _check_targets(targets, projections):
        raise OptionError(f"method lora on {family.title}: {reason}")
    words = list(projections) if "all" in _words(targets) else _words(targets)
    paths = dict.fromkeys(projections[word] for word in words)
    names = {id(module): name for name, module in tunable.model.named_modules()}
    return [names[id(layer.get_submodule(path))] for layer in chosen_layers(tunable) for path in paths]


def _words(targets: str) -> list[str]:
    return [word.strip() for word in targets.split("+")]
