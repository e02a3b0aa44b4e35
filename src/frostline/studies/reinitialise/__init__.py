"""Replacing pretrained layers by random ones before tuning, as in Tamkin et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frostline.errors import OptionError
from frostline.records import Plan
from frostline.studies import Ask, Point, study
from frostline.studies._options import check_at_least, check_choice, read_numbers
from frostline.studies._released import released_recipe
from frostline.studies._unstated import TAMKIN_UNSTATED
from frostline.studies.reinitialise.figures import figures
from frostline.studies.reinitialise.probe import OF_SCRIPT, OF_TEXT, PROBE, ProbeOptions, probe_point
from frostline.studies.reinitialise.reproduces import COUNTERPARTS
from frostline.studies.reinitialise.tables import tables

_MODES = ("incremental", "blocks", "preserved", "single")
_SMALL = 500  # training rows up to which the paper runs more trials and epochs
_LARGE = 50_000  # the paper's largest number of training rows


def _sizes(ask: Ask, text: str, mode: str, available: int, block_trials: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each size, with the numbers of training rows, seeds and epochs that it means for a task.

    The paper uses its largest size only for tasks with as many rows.
    """
    if text != "paper":
        sizes = read_numbers("reinitialise", "sizes", text, least=1, separator="+", also="paper")
    else:
        sizes = [500, 5000, *([_LARGE] if available >= _LARGE else [])] if mode == "incremental" else [5000]
    for size in sizes:
        rows = min(size, available, ask.rows or size)
        seeds, epochs = (50, 5) if rows <= _SMALL else (3, 3)
        if mode != "incremental":
            seeds = 3 if mode == "single" else block_trials
        yield size, rows, ask.seeds if "seeds" in ask.given else seeds, ask.epochs(epochs)


def _arms(mode: str, depth: int, width: int, step: int) -> Iterator[tuple[str, list[int], dict[str, Any]]]:
    """Yield name, re-initialised layers and labels of each arm: the intact encoder, all layers new, then the others."""
    if mode in ("blocks", "preserved") and not 1 <= width <= depth:
        raise OptionError(f"study reinitialise: option width {width} must be 1..{depth}")
    every = list(range(1, depth + 1))
    nothing: dict[str, Any] = {"first": None, "last": None, "kept": None}
    is_incremental = mode == "incremental"
    yield "full", [], {**nothing, "kept": depth if is_incremental else None}
    yield "all new", every, {**nothing, "kept": 0 if is_incremental else None}
    if is_incremental:
        for kept in range(step, depth, step):
            yield f"{kept} kept", every[kept:], {**nothing, "kept": kept}
        return
    for first in range(1, depth - (1 if mode == "single" else width) + 2, step):
        block = [first] if mode == "single" else list(range(first, first + width))
        labels = {"first": block[0], "last": block[-1], "kept": None}
        span = f"{block[0]}..{block[-1]}" if len(block) > 1 else str(block[0])
        if mode == "preserved":
            yield f"only {span} kept", [layer for layer in every if layer not in block], labels
        else:
            yield f"{span} new", block, labels


@study(
    kinds=[PROBE],
    paper="Tamkin et al. 2020",
    reproduces=COUNTERPARTS,
    tables=tables,
    figures=figures,
    tasks=("glue/sst2", "glue/qnli", "glue/cola"),
    seeds=3,
    recipe={"batch": 8, "epochs": 3, "head": "mean", "warmup": 0.0, "select": "last"},
    unstated=TAMKIN_UNSTATED,
    selection="Both protocols keep the last epoch, as the paper trains for a fixed number; only the probe next to the "
    "curves stops early, by its loss on validation rows under `protocol='held-out'`, and on the development set under "
    "`protocol='paper'`.",
    before={"probe_rate": 1e-3, "probe_batch": 32, "probe_rows": 5000},
    varies=("epochs", "seeds"),
    quick={"sizes": "200", "step": 0, "probe_rate": 5e-4, "probe_batch": 32},
    quick_recipe={"epochs": 2},
    quick_seeds=2,
)
def reinitialise(
    ask: Ask,
    *,
    mode: str = "incremental",
    width: int = 3,
    step: int = 1,
    sizes: str = "paper",
    new_layer_rate: float = 1.0,
    keep_norms: bool = False,
    as_released: bool = False,
    rate: float = 2e-5,
    block_trials: int = 10,
    probe_rate: float = 2e-5,
    probe_batch: int = 8,
    probe_rows: int = 0,
    probe_trials: int = 8,
    probe_patience: int = 3,
) -> Iterator[Point]:
    """How much do pretrained layers contribute, by their position and by the amount of data?

    Some layers start from random weights (a normal distribution with standard deviation 0.02, truncated at two
    deviations; norms at 1 and 0), the embeddings stay as pretrained, and everything is tuned with a mean-pooled linear
    head. Each seed draws its own rows. As in the paper, there are 50 seeds and 5 epochs with 500 rows or fewer,
    otherwise 3 seeds (10 for blocks) and 3 epochs; both can be set. The paper's linear probe on each pretrained layer
    is drawn next to the curve: trained on all training rows for at most 40 epochs with early stopping, judged on the
    same rows as tuning, 8 trials.

    Options: `mode`, which layers are new: 'incremental' (all after the first k), 'blocks' (a block of neighbours),
    'preserved' (all but a block) or 'single' (one layer); `width`, width of blocks; `step`, difference between
    successive arms, 0 for a quarter of the layers; `sizes`, numbers of training rows joined by +, or 'paper' for
    500+5000+50000 (the last for tasks with as many rows; 5000 alone unless the mode is incremental); `new_layer_rate`,
    factor on the learning rate of new layers (the paper tries 5); `keep_norms`, keep pretrained LayerNorms;
    `as_released`, as the released script instead of the text: new weights with a standard deviation of 0.00046 and
    biases kept, the stock head on the first token, no warm-up, 128 tokens, the last weights, and the probe on the
    frozen pretrained pooler of the layer's first token; `rate`, learning rate for encoders of width 768, the paper's by
    default (narrower encoders get a proportionally higher rate); `block_trials`, seeds of blocks unless the number of
    seeds is set: 10 as in the paper's appendix C (its list of costs says 3); `probe_rate`, learning rate of the probe,
    scaled like `rate`; `probe_batch`, its rows per step; `probe_rows`, its training rows, 0 for all; `probe_trials`,
    trials of each probe, 0 for no probe; `probe_patience`, epochs without improvement before it stops, which the paper
    does not state.
    """
    check_choice("reinitialise", "mode", mode, _MODES)
    check_at_least(0, "reinitialise", step=step, probe_rows=probe_rows, probe_trials=probe_trials)
    check_at_least(1, "reinitialise", block_trials=block_trials, probe_batch=probe_batch, probe_patience=probe_patience)
    recipe = released_recipe(ask) if as_released else {}
    probe = ProbeOptions(
        rate=probe_rate, batch=probe_batch, rows=probe_rows, trials=probe_trials, patience=probe_patience
    )
    for encoder, task in ask.pairs():
        if mode == "incremental" and probe_trials:
            score = OF_SCRIPT if as_released else OF_TEXT
            yield probe_point(ask, encoder, task, probe, score=score, recipe=recipe)
        for size, rows, seeds, epochs in _sizes(ask, sizes, mode, len(task.train), block_trials):
            own = {"learning_rate": ask.rate_for(encoder, rate), "epochs": epochs, **recipe}
            for arm, new, labels in _arms(mode, encoder.depth, width, step or -(-encoder.depth // 4)):
                surgery = {"reinitialise": new, "keep_norms": keep_norms, "as_released": as_released} if new else {}
                own["new_layer_rate"] = new_layer_rate if new else 1.0
                for seed in range(seeds):
                    yield ask.point(encoder, task, Plan.full(encoder.depth), arm=arm, seed=seed, rows=rows,
                                    surgery=surgery, labels={"size": size, "rows": rows, **labels}, **own)  # fmt: skip
