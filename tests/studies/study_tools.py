"""What tests of studies share: a tiny encoder, small data of our own, and a quick way to run a study on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import stats
from tests.search.race_tools import write_rows
from tests.tiny import tiny_model, tiny_tokenizer

from frostline.api._study import StudyOptions, study
from frostline.encoders.loading import quiet_transformers
from frostline.records import TrialResult
from frostline.studies._engine.run import Studied

# Short trials: what is tested is that a study asks the right things and counts them right, not that models get good.
SHORT = {"epochs": 1, "batch": 16}


def save_tiny(folder: Path, *, family: str = "bert", layers: int | None = None, seed: int = 0) -> Path:
    """A folder with a tiny random model, cut to so many layers."""
    model = tiny_model(family, seed=seed)
    if layers is not None:
        model.encoder.layer = model.encoder.layer[:layers]
        model.config.num_hidden_layers = layers
    with quiet_transformers():
        model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def run_quickly(name: str, folder: Path, *, rows: int = 120, layers: int | None = None, **more: Any) -> Studied:
    """A quick study of a tiny encoder on letters, in a folder of its own."""
    encoder, data = folder / "tiny", folder / "letters.csv"
    if not encoder.exists():
        save_tiny(encoder, layers=layers)
    if not data.exists():
        write_rows(data, rows)
    given: dict[str, Any] = {
        "encoders": [str(encoder)],
        "tasks": [str(data)],
        "output": folder / name,
        "quick": True,
        "recipe": SHORT,
        "cache": False,
        "estimate": False,
    }
    return study_with(name, **(given | more))


def spearman_of_all_orders(one: Any, other: Any) -> Any:
    """Scipy's correlation of ranks and the share of all orders that are as far from 0, which few pairs need."""
    return stats.permutation_test(
        (one,), lambda values: stats.spearmanr(values, other).statistic, permutation_type="pairings", n_resamples=10**6
    )


def study_with(name: str, *, executor: Any = None, **given: Any) -> Studied:
    """A study with its options as one list, and an executor that is made from materials alone."""
    asked = {field: given.pop(field) for field in list(given) if field in StudyOptions.__dataclass_fields__}
    if executor is not None:
        given["executor"] = lambda materials, context: executor(materials)
    return study(name, StudyOptions(**asked), **given)


class Nothing:
    """An executor whose trials all fail."""

    device = "cpu"

    def __init__(self, materials):
        pass

    def run(self, specs, *, keep=False):
        yield from ((spec, TrialResult(status="failed", reason="on purpose")) for spec in specs)

    def close(self):
        pass
