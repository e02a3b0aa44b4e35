"""How fast all spans of layers are left out in turn, next to running every shortened model. `python bench/skip.py GLUE`

Prints tables and, as the last line, one flat JSON object of ratios. All sides run in one process, taking turns, with
one thread as trials of a study do, on a BERT of 12 layers of width 384 (random weights: speed does not depend on them).
What a user would run instead is the stock class without the layers, in padded batches of 32 texts as they come; beside
it the same with texts sorted by length, and our own shortened models, unpadded. How much padding costs depends on the
lengths of texts: there are SST-2's training texts, short and unequal, and half as many of its dev texts, whole
sentences twice as long (`..._dev`). The first argument is a folder with SST-2's official files, the second, if given,
the number of texts. With 96 of them it takes about a quarter of an hour.
"""

from __future__ import annotations

import copy
import json
import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sides import row, take_turns
from transformers import BertConfig, BertForSequenceClassification

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.surgery import skip
from frostline.records import Plan
from frostline.studies.skip import Span, all_spans, outputs_without
from frostline.tasks import load_task
from frostline.tasks.splits import sample
from frostline.training.dataset import Examples
from frostline.training.model import Tunable, make_tunable

DEPTH, WIDTH, BATCH = 12, 384, 32
TEXTS, ROUNDS = 96, 3
CHECKED = 8  # texts on which all sides are compared before anything is timed


def tuned_model(tokenizer: object) -> tuple[Tunable, BertForSequenceClassification]:
    """The model our way and as the stock class, with the same weights."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522,
        num_hidden_layers=DEPTH,
        hidden_size=WIDTH,
        num_attention_heads=12,
        intermediate_size=4 * WIDTH,
    )
    stock = BertForSequenceClassification(config).eval()
    encoder = Encoder(copy.deepcopy(stock.bert), tokenizer, name="BERT 12 x 384")
    tunable = make_tunable(encoder, Plan.full(DEPTH), outputs=2)
    stock.classifier.load_state_dict(tunable.head.stock.classifier.state_dict())
    return tunable, stock


def stock_without(stock: BertForSequenceClassification, span: Span) -> BertForSequenceClassification:
    """The stock model without a span, its other weights shared: building it is not what is timed."""
    short = copy.copy(stock)
    short._modules = dict(stock._modules)
    short.bert = copy.copy(stock.bert)
    short.bert._modules = dict(stock.bert._modules)
    short.bert.encoder = copy.copy(stock.bert.encoder)
    short.bert.encoder._modules = dict(stock.bert.encoder._modules)
    kept = [layer for number, layer in enumerate(stock.bert.encoder.layer, start=1) if not span[0] <= number <= span[1]]
    short.bert.encoder.layer = torch.nn.ModuleList(kept)
    return short


def our_short_models(tunable: Tunable, spans: list[Span]) -> dict[Span, Tunable]:
    """Our own shortened models, with the tuned head."""
    models = {}
    for span in spans:
        encoder = skip(tunable.encoder, *span)
        kept = [number for number in range(DEPTH) if not span[0] <= number + 1 <= span[1]]
        encoder.model.embeddings = tunable.encoder.model.embeddings  # 77 copies of the weights would take gigabytes
        encoder.family.set_layers(encoder.model, [tunable.encoder.model.encoder.layer[number] for number in kept])
        models[span] = Tunable(encoder, copy.deepcopy(tunable.head), Plan.full(encoder.depth)).eval()
    return models


def stock_forwards(
    models: dict[Span, BertForSequenceClassification], tunable: Tunable, rows: Examples, *, by_length: bool
) -> dict[Span, torch.Tensor]:
    """Every shortened stock model over all texts, padded."""
    order = np.argsort(rows.tokens.lengths) if by_length else np.arange(len(rows))
    batches = []
    for start in range(0, len(order), BATCH):
        batch = rows.tokens.take(order[start : start + BATCH])
        layout = tunable.encoder.layout(batch)
        mask = layout.padded.mask
        ids = torch.as_tensor(batch.ids)[layout.padded.index] * mask
        batches.append((torch.as_tensor(order[start : start + BATCH]), ids, mask.long()))
    logits = {}
    with torch.inference_mode():
        for span, model in models.items():
            logits[span] = torch.empty(len(rows), 2)
            for places, ids, mask in batches:
                logits[span][places] = model(input_ids=ids, attention_mask=mask).logits
    return logits


def layers_run(spans: list[Span]) -> tuple[int, int]:
    """How many layers run when every shortened model runs, and when what lies below is shared."""
    separate = sum(DEPTH - (last - first + 1) for first, last in spans)
    return separate, DEPTH - 1 + sum(DEPTH - last for _, last in spans)


def check_same(found: dict[Span, torch.Tensor], other: dict[Span, torch.Tensor]) -> None:
    for span, outputs in found.items():
        torch.testing.assert_close(outputs, other[span], atol=1e-4, rtol=0)


def main() -> None:
    """Run all comparisons."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else TEXTS
    task = load_task("glue/sst2", data_dir=Path(sys.argv[1]))
    tunable, stock = tuned_model(load_encoder().tokenizer)
    spans = [span for span in all_spans(DEPTH) if span != (1, DEPTH)]  # what is left of that is no model to run
    shorts = {span: stock_without(stock, span) for span in spans}
    ours_short = our_short_models(tunable, spans)
    arms: dict[str, Callable[[Examples], dict[Span, torch.Tensor]]] = {
        "ours": lambda rows: outputs_without(tunable, rows, spans),
        "stock models, batches as they come": lambda rows: stock_forwards(shorts, tunable, rows, by_length=False),
        "stock models, sorted by length": lambda rows: stock_forwards(shorts, tunable, rows, by_length=True),
        "our models one by one": lambda rows: {span: rows.outputs(model) for span, model in ours_short.items()},
    }
    separate, shared = layers_run(spans)
    print(f"one thread, {len(spans)} spans of {DEPTH} layers: {separate} layers run one by one, "
          f"{shared} shared", flush=True)  # fmt: skip
    named = {"layers_run_ratio": separate / shared}
    for name, split, texts in (("", task.train, count), ("_dev", task.test, count // 2)):
        tokens = tunable.encoder.tokenize(sample(split, texts, seed=0).texts)
        rows = Examples(tokens=tokens, states=None, labels=torch.zeros(len(tokens), dtype=torch.long), offsets=None)
        few = rows.take(np.arange(CHECKED))
        found = arms["ours"](few)
        for run in arms.values():
            check_same(found, run(few))
        print(f"{len(tokens)} texts of {np.mean(tokens.lengths):.0f} tokens on average", flush=True)
        print(f"{'':58s} {'ours':>9s}   {'theirs':>9s}   {'ratio':>7s}")
        times = take_turns({arm: partial(run, rows) for arm, run in arms.items()}, rounds=ROUNDS)
        ratios = {}
        for arm in list(arms)[1:]:
            each = [their / our for our, their in zip(times["ours"], times[arm], strict=True)]
            ratios[arm] = statistics.median(each)
            row(arm, statistics.median(times["ours"]), statistics.median(times[arm]), ratios[arm])
        named |= {
            f"spans_vs_separate_forwards{name}": ratios["stock models, batches as they come"],
            f"spans_vs_sorted_forwards{name}": ratios["stock models, sorted by length"],
            f"spans_vs_our_separate_forwards{name}": ratios["our models one by one"],
        }
    print(json.dumps({name: round(value, 3) for name, value in named.items()}))


if __name__ == "__main__":
    main()
