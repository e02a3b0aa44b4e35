"""What the five papers did, as data: every experiment that a study repeats, with the place in the text for each field.

Written from the papers alone. A field that a paper does not state stands under `unstated` with the value that the study
takes, which is then a decision of ours and not of the paper. Arms that a paper does not have are marked as ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BERT, BERT_CASED, BERT_LARGE = (
    "google-bert/bert-base-uncased", "google-bert/bert-base-cased", "google-bert/bert-large-uncased",
)  # fmt: skip
ROBERTA, ROBERTA_LARGE = "FacebookAI/roberta-base", "FacebookAI/roberta-large"
DEBERTA, ALBERT, ELECTRA = "microsoft/deberta-base", "albert/albert-large-v2", "google/electra-base-discriminator"


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Arms that are trained alike.

    Args:
        names: regular expression of their names.
        rates: learning rates that are tried, or used; empty if nothing is trained, or with `like`.
        trials: number of trials with each rate, in every task; 0 if not counted.
        tasks: tasks on which they are trained so; all if empty.
        epochs: number of epochs; None if steps are counted.
        steps: number of steps; None if epochs are counted.
        rows: training rows; None for all.
        plans: number of plans of these names in every task; None if not counted.
        like: arms whose chosen rate they use, as a format of the number of layers.
        varies: whether trials, epochs and rows vary; they are compared by a test of their own.
        is_ours: whether the paper does not have them.
    """

    names: str
    rates: tuple[float, ...] = ()
    trials: int = 0
    tasks: tuple[str, ...] = ()
    epochs: int | None = None
    steps: int | None = None
    rows: int | None = None
    plans: int | None = None
    like: str = ""
    varies: bool = False
    is_ours: bool = False


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """One experiment of a paper.

    Args:
        study: the study that repeats it.
        encoder: the paper's encoder, by its name on the hub.
        tasks: the deciding metric of each task.
        recipe: fields of the recipe that the paper states.
        unstated: fields that it does not state, with the study's value.
        arms: how the arms are trained; a point of the study belongs to the first entry that fits.
        options: options of the study that the paper states, with its values.
        chosen: what is chosen on validation rows, which the papers choose on the rows that they report.
        arguments: further arguments of the command.
        sources: where the paper states it, by what is stated.
    """

    study: str
    encoder: str
    tasks: Mapping[str, str]
    recipe: Mapping[str, Any]
    arms: tuple[Arms, ...]
    unstated: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    arguments: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command of the study at full size."""
        return f"frostline study {self.study} --encoder {self.encoder} {self.arguments}".strip()


# Xie et al. 2022 -----------------------------------------------------------------------------------------------------

_XIE_TASKS = {"glue/cola": "matthews", "glue/mnli": "accuracy", "glue/mrpc": "f1", "glue/qnli": "accuracy",
              "glue/qqp": "f1", "glue/sst2": "accuracy"}  # fmt: skip
_XIE_RECIPE = {"batch": 8, "schedule": "linear", "warmup": 0.06, "select": "best", "weight_decay": 0.0, "dropout": 0.1,
               "head": "family"}  # fmt: skip
_XIE_SOURCES = {"recipe": "appendix B.1", "head": "appendix B.2", "metrics": "appendix B", "trials": "section 4",
                "select": "appendix B.1", "rows": "section 3.1"}  # fmt: skip
_XIE_CHOSEN = ("the epoch", "the learning rate")  # appendices B.1 and B.4
_LONG = ("glue/mnli", "glue/qqp")
_SHORT = ("glue/cola", "glue/mrpc", "glue/qnli", "glue/sst2")
_FULL, _LAST = (1e-6, 5e-6, 8e-6, 1e-5, 2e-5), (8e-6, 1e-5, 2e-5, 3e-5, 5e-5)
_LOWER, _UPPER = (5e-6, 1e-5, 5e-5, 1e-4), (1e-6, 3e-6, 1e-5, 3e-5)

# (1, l*, L) is among the strategies of section 4.2, but neither in table 4 nor in table 6.
_AROUND_BEST = (
    Arms(names=r"down-[123](, cut)?|middle-[123](, cut)?", trials=5, epochs=20, like="top-{}"),
    Arms(names=r"down-\d+", is_ours=True),
    Arms(names=r"up to the middle(, cut)?|random-[123]", is_ours=True),
)
_FINE_TUNING = (
    Arms(names="full", rates=_FULL, trials=5, tasks=_LONG, epochs=10, plans=1),
    Arms(names="full", rates=_FULL, trials=5, tasks=_SHORT, epochs=20, plans=1),
    Arms(names="top-[123]", rates=_LAST, trials=5, epochs=20, plans=3),
    Arms(names=r"down-\d+, cut", rates=_LOWER, trials=5, epochs=20, plans=1),
    Arms(names="up", rates=_UPPER, trials=5, epochs=20, plans=1),
)
_ADAPTERS = (
    Arms(names="full", rates=(1e-5, 3e-5, 1e-4), trials=5, epochs=20, plans=1),
    Arms(names="top-[123]", rates=(3e-5, 1e-4, 3e-4), trials=5, epochs=20, plans=3),
    Arms(names=r"down-\d+, cut", rates=(1e-5, 3e-5, 1e-4), trials=5, epochs=20, plans=1),
    Arms(names="up", rates=(1e-5, 3e-5, 1e-4), trials=5, epochs=20, plans=1),
)
_RATES_SOURCE = {"rates": "appendices B.4 and B.5, tables 4 and 5", "arms": "section 4.2, tables 6 to 9"}

XIE = {
    "Xie, fine-tuning": Protocol(
        study="strategies", encoder=ROBERTA_LARGE, tasks=_XIE_TASKS, recipe=_XIE_RECIPE, chosen=_XIE_CHOSEN,
        arms=(_AROUND_BEST[0], *_FINE_TUNING, *_AROUND_BEST[1:]), arguments="--option methods=full",
        options={"score": "variability", "states": "mean", "reuse": True, "rates": 5, "rate_per_seed": False,
                 "examples": 0},
        sources={**_XIE_SOURCES, **_RATES_SOURCE},
    ),
    "Xie, adapters": Protocol(
        study="strategies", encoder=ROBERTA_LARGE, tasks=_XIE_TASKS, recipe=_XIE_RECIPE, chosen=_XIE_CHOSEN,
        arms=(_AROUND_BEST[0], *_ADAPTERS, *_AROUND_BEST[1:]), arguments="--option methods=houlsby",
        sources={**_XIE_SOURCES, **_RATES_SOURCE, "bottleneck": "appendix B.2"},
    ),
    "Xie, DeBERTa": Protocol(
        study="strategies", encoder=DEBERTA, recipe=_XIE_RECIPE, chosen=_XIE_CHOSEN,
        tasks={name: metric for name, metric in _XIE_TASKS.items() if name != "glue/sst2"},
        arms=(
            Arms(names="down-1(, cut)?|middle-1(, cut)?", trials=5, epochs=20, like="top-{}"),
            Arms(names="full", rates=_FULL, trials=5, tasks=_LONG, epochs=10, plans=1),
            Arms(names="full", rates=_FULL, trials=5, tasks=_SHORT, epochs=20, plans=1),
            Arms(names="top-1", rates=_LAST, trials=5, epochs=20, plans=1),
        ),
        arguments="--tasks glue/cola,glue/mnli,glue/mrpc,glue/qnli,glue/qqp "
        "--option methods=full --option 'arms=full+top-1+down-1+down-1, cut+middle-1+middle-1, cut'",
        sources={**_XIE_SOURCES, **_RATES_SOURCE, "tasks": "appendix C.2, tables 11 and 12"},
    ),
    "Xie, probing": Protocol(
        study="probing", encoder=ROBERTA_LARGE, tasks=_XIE_TASKS, recipe=_XIE_RECIPE,
        chosen=(*_XIE_CHOSEN, "the epoch of the probe"),
        arms=(
            Arms(names="pretrained.*", trials=5, plans=1),
            Arms(names="tuned", rates=_FULL, trials=5, tasks=_LONG, epochs=10, plans=1),
            Arms(names="tuned", rates=_FULL, trials=5, tasks=_SHORT, epochs=20, plans=1),
        ),
        options={"probe_epochs": 20, "probe_batch": 8, "probe_schedule": "linear", "probe_warmup": 0.06,
                 "examples": 0, "judged": "dev", "states": "mean"},
        sources={**_XIE_SOURCES, "probe": "section 4.1, appendix B.3 and table 3", "tuned": "appendix C.4"},
    ),
    "Xie, robustness": Protocol(
        study="robustness", encoder=ROBERTA_LARGE, recipe={}, chosen=("the epoch of the probe",),
        tasks={"glue/sst2": "accuracy", "glue/mnli": "accuracy"},
        arms=(Arms(names="imbalance|scarcity", trials=5),),
        sources={"settings": "section 4.4 and appendix C.6", "tasks": "section 4.4 and appendix C.6"},
    ),
}  # fmt: skip

XIE_PROBE_RATES = {"glue/cola": 1e-3, "glue/mnli": 1e-3, "glue/mrpc": 1e-3, "glue/qnli": 1e-3, "glue/qqp": 3e-4,
                   "glue/sst2": 3e-3}  # fmt: skip  # table 3
XIE_BOTTLENECK = 256  # appendix B.2, for a width of 1,024
# Rows of each class, in the order of the task's classes: section 4.4 and appendix C.6.
XIE_ROWS = {
    ("glue/sst2", "imbalance"): [[10000, 10000], [5000, 15000], [2000, 18000], [1000, 19000]],
    ("glue/sst2", "scarcity"): [[20000, 20000], [10000, 10000], [2500, 2500], [100, 100]],
    ("glue/mnli", "imbalance"): [[10000] * 3, [6000, 12000, 12000], [18000, 6000, 6000], [24000, 3000, 3000]],
    ("glue/mnli", "scarcity"): [[20000] * 3, [10000] * 3, [5000] * 3, [1250] * 3, [300] * 3],
}

# Lodha et al. 2023 ---------------------------------------------------------------------------------------------------

# Appendix A.2 calls all values accuracies; CoLA's .521 to .582 are Matthews correlations, STS-B's metric is unstated.
_LODHA_TASKS = {
    "glue/qnli": "accuracy", "glue/sst2": "accuracy", "glue/cola": "matthews", "glue/mrpc": "accuracy",
    "glue/rte": "accuracy", "glue/wnli": "accuracy", "glue/stsb": "spearman", "glue/qqp": "accuracy",
    "glue/mnli": "accuracy", "super_glue/cb": "accuracy", "super_glue/copa": "accuracy",
    "super_glue/multirc": "accuracy", "super_glue/wic": "accuracy", "super_glue/wsc": "accuracy",
    "super_glue/boolq": "accuracy",
}  # fmt: skip
_LODHA_RECIPE = {"batch": 16, "weight_decay": 0.01}
_LODHA_UNSTATED = {"warmup": 0.0, "schedule": "linear", "select": "last"}
_LODHA_SOURCES = {"recipe": "appendix A.1, table 1", "tasks": "tables 2 to 5", "metrics": "appendix A.2",
                  "trials": "figure 1", "arms": "section 5.1, tables 4 and 5"}  # fmt: skip

LODHA = {
    "Lodha, surgical": Protocol(
        study="surgical", encoder=BERT_CASED, tasks=_LODHA_TASKS, recipe=_LODHA_RECIPE, unstated=_LODHA_UNSTATED,
        arms=(
            Arms(names="full", rates=(5e-5,), trials=2, epochs=10, plans=1),
            Arms(names="top-[12345]", rates=(5e-5,), trials=2, epochs=10, plans=5),
            Arms(names="bottom-1", rates=(5e-5,), trials=2, epochs=10, plans=1),
            Arms(names=r"(random|last|middle)-\d|top-k, k by validation", is_ours=True),
        ),
        options={"most": 5, "score": "fisher"}, chosen=("the number of layers",),  # by an arm of ours
        sources={**_LODHA_SOURCES, "score": "section 3.1, equation 1"},
    ),
    "Lodha, ranking": Protocol(
        study="ranking", encoder=BERT_CASED, tasks=_LODHA_TASKS, recipe=_LODHA_RECIPE, unstated=_LODHA_UNSTATED,
        arms=(
            Arms(names="full", rates=(5e-5,), trials=2, epochs=10, plans=1),
            Arms(names="at the start", is_ours=True),
        ),
        options={"epochs": "0,2,5,8,10", "examples": 100, "label": "expected", "norm": "frobenius"},
        sources={**_LODHA_SOURCES, "epochs": "section 5.4", "examples": "section 3.1"},
    ),
}  # fmt: skip

# Tamkin et al. 2020 --------------------------------------------------------------------------------------------------

_TAMKIN_TASKS = {"glue/sst2": "accuracy", "glue/qnli": "accuracy", "glue/cola": "matthews"}
# Adam with its default parameters has no weight decay.
_TAMKIN_RECIPE = {"batch": 8, "head": "mean", "weight_decay": 0.0, "dropout": 0.1}
_TAMKIN_UNSTATED = {"warmup": 0.0, "schedule": "linear", "select": "last"}
_TAMKIN_SOURCES = {"recipe": "section 2 and appendix I.6", "head": "section 3", "rows": "section 2",
                   "trials": "appendix C", "epochs": "appendix E", "metrics": "appendix I.5"}  # fmt: skip
_RATE = (2e-5,)
_STOPS_EARLY = ("the epoch of the probe",)  # appendix E
_PROBE = Arms(names="probe", trials=1, plans=1)  # its eight trials (appendix E) are one of the study's


def _tamkin(study: str, *arms: Arms, **more: Any) -> Protocol:
    return Protocol(study=study, encoder=BERT, tasks=_TAMKIN_TASKS, recipe=_TAMKIN_RECIPE, unstated=_TAMKIN_UNSTATED,
                    arms=arms, sources=_TAMKIN_SOURCES, **more)  # fmt: skip


TAMKIN = {
    "Tamkin, incremental, 500 rows": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|\d+ kept", rates=_RATE, trials=50, epochs=5, rows=500, plans=13),
        _PROBE,
        chosen=_STOPS_EARLY,
        arguments="--option sizes=500",
    ),
    "Tamkin, incremental, 5,000 rows": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|\d+ kept", rates=_RATE, trials=3, epochs=3, rows=5000, plans=13),
        _PROBE,
        chosen=_STOPS_EARLY,
        arguments="--option sizes=5000",
    ),
    "Tamkin, incremental": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|\d+ kept", rates=_RATE, plans=13, varies=True),
        _PROBE,
        chosen=_STOPS_EARLY,
        options={"sizes": "paper", "mode": "incremental", "new_layer_rate": 1.0, "keep_norms": False,
                 "as_released": False, "probe_rate": 2e-5, "probe_batch": 8, "probe_rows": 0, "probe_trials": 8},
    ),
    "Tamkin, blocks": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|.* new", rates=_RATE, trials=10, epochs=3, rows=5000, plans=12),
        arguments="--option mode=blocks",
        options={"width": 3},
    ),
    "Tamkin, preserved": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|only .* kept", rates=_RATE, trials=10, epochs=3, rows=5000, plans=12),
        arguments="--option mode=preserved",
    ),
    "Tamkin, single layers": _tamkin(
        "reinitialise",
        Arms(names=r"full|all new|\d+ new", rates=_RATE, trials=3, epochs=3, rows=5000, plans=14),
        arguments="--option mode=single",
    ),
    "Tamkin, permutations": _tamkin(
        "permute",
        Arms(names=r"order \d+", rates=_RATE, trials=1, epochs=3, rows=5000, plans=10),
        # Their number is unstated; one with the rows of each order, so that they pair.
        Arms(names="full|all new", rates=_RATE, trials=10, epochs=3, rows=5000, plans=2),
        options={"orders": 10, "size": 5000},
    ),
}  # fmt: skip
# Section 2: CoLA has too few rows for the largest size.
TAMKIN_SIZES = {"glue/sst2": {500, 5000, 50000}, "glue/qnli": {500, 5000, 50000}, "glue/cola": {500, 5000}}
TAMKIN_TRIALS = {500: 50, 5000: 3, 50000: 3}  # appendix C
TAMKIN_EPOCHS = {500: 5, 5000: 3, 50000: 3}  # appendix E

# Phang et al. 2021 ---------------------------------------------------------------------------------------------------

# The metrics are those of the benchmarks; the text names none.
_PHANG_TASKS = {
    "glue/cola": "matthews", "glue/sst2": "accuracy", "glue/mrpc": "f1", "glue/qqp": "f1", "glue/stsb": "spearman",
    "glue/mnli": "accuracy", "glue/qnli": "accuracy", "glue/rte": "accuracy", "super_glue/boolq": "accuracy",
    "yelp_polarity": "accuracy", "hellaswag": "accuracy", "cosmosqa": "accuracy",
}  # fmt: skip


def _phang(study: str, encoder: str, arm: str, **more: Any) -> Protocol:
    return Protocol(
        study=study, encoder=encoder, tasks=_PHANG_TASKS,
        recipe={"batch": 4, "warmup": 0.1, "head": "family"},
        unstated={"select": "last", "schedule": "linear"},
        arms=(Arms(names=arm, rates=(1e-5,), trials=3, steps=10_000, plans=1),),
        sources={"recipe": "section 2 (1,000 of 10,000 steps are warm-up)", "tasks": "section 2",
                 "head": "section 3", "select": "section 2 says up to 10,000 steps",
                 "trials": "unstated, at least two (section 3); three so that there are intervals"},
        **more,
    )  # fmt: skip


PHANG = {
    f"Phang, {study}, {encoder}": _phang(study, encoder, arm, **more)
    for study, arm, encoders, more in (
        ("similarity", "two restarts", (ROBERTA, ALBERT, ELECTRA), {}),
        # Figure 3: TUNED and TUNEDORIG; their recipe is unstated, the study's own is used for both.
        ("truncate", "all layers", (ROBERTA, ALBERT, ELECTRA),
         {"options": {"head_rate": 0.0, "head_epochs": 0, "orig_start": "fresh"}}),
        # Figure 4: RoBERTa alone, on a part of the tasks.
        ("skip", "all spans", (ROBERTA,), {}),
    )
    for encoder in encoders
}  # fmt: skip

# Lee et al. 2019 -----------------------------------------------------------------------------------------------------

_LEE_TASKS = {"glue/cola": "matthews", "glue/sst2": "accuracy", "glue/mrpc": "f1", "glue/stsb": "spearman"}
_LEE_ALL = {**_LEE_TASKS, "glue/qqp": "f1", "glue/mnli": "accuracy", "glue/qnli": "accuracy", "glue/rte": "accuracy"}
_LEE_RATES = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)


def _lee(encoder: str, depth: int, epochs: int, **more: Any) -> Protocol:
    given = {"tasks": _LEE_TASKS, **more}
    return Protocol(
        study="freeze", encoder=encoder,
        recipe={"batch": 16, "head": "family"},
        unstated={"warmup": 0.06, "schedule": "linear", "select": "last", "weight_decay": 0.0},
        arms=(
            Arms(names="full", rates=_LEE_RATES, trials=5, epochs=epochs, plans=1),
            Arms(names=r"\d+ frozen", trials=5, epochs=epochs, plans=depth // 2 + 1, like="full"),
        ),
        options={"rates": 5, "step": 1, "rate_per_seed": False, "frozen_as_released": False},
        chosen=("the learning rate",),  # section 3.2
        sources={"recipe": "section 3.2", "tasks": "sections 3.1 and 3.2", "metrics": "tables 2 to 5",
                 "trials": "tables 3 to 5", "arms": "section 3.2"},
        **given,
    )  # fmt: skip


LEE = {
    "Lee, BERT-base": _lee(BERT, 12, 3, tasks=_LEE_ALL, arguments=f"--tasks {','.join(_LEE_ALL)}"),
    "Lee, RoBERTa-base": _lee(ROBERTA, 12, 10),
    "Lee, BERT-large": _lee(BERT_LARGE, 24, 3),
    "Lee, RoBERTa-large": _lee(ROBERTA_LARGE, 24, 10),
}

PROTOCOLS: Mapping[str, Protocol] = {**XIE, **LODHA, **TAMKIN, **PHANG, **LEE}
