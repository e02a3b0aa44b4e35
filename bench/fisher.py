"""The exact Fisher diagonal against the loop that a user would write: one text at a time.

The loop runs the stock Hugging Face model, unpadded since a single text needs no padding, with one backward pass per
label. A second loop is given our saving of labels (one backward pass for two classes). One process, interleaved, the
same threads; ratios are medians over rounds of times measured side by side.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from torch import Tensor

from frostline.checkpoint import load_encoder
from frostline.encoder import Encoder
from frostline.evidence import Evidence
from frostline.heads import FamilyHead, make_head
from frostline.scores.fisher import estimate_fisher, fisher_diagonal
from frostline.tokens import Tokens

TEXTS = Path(__file__).resolve().parents[2] / "shared" / "glue" / "SST-2" / "train.tsv"
Diagonals = list[dict[str, Tensor]]


def compare_fisher(encoder: Encoder, tokens: Tokens, *, rounds: int = 3) -> dict[str, float]:
    """Times and ratios for the diagonal over these texts, two classes and one head; prints a row of the table."""
    labels = torch.arange(len(tokens)) % 2
    head = make_head(encoder, labels=2, seed=0).eval()

    def evidence() -> Evidence:  # a new one each time, since results are remembered by evidence
        return Evidence(
            states={},
            labels=labels,
            groups=torch.arange(len(tokens)),
            kind="classification",
            metric="accuracy",
            pooling="mean",
            seed=0,
            encoder=encoder,
            tokens=tokens,
        )

    arms: dict[str, Callable[[], object]] = {
        "ours": lambda: fisher_diagonal(evidence(), examples=len(tokens), heads=1),
        "loop": lambda: loop(encoder, head, tokens, one_backward=False),
        "loop with one backward": lambda: loop(encoder, head, tokens, one_backward=True),
        "score, 3 heads, uncertainty": lambda: estimate_fisher(evidence(), examples=len(tokens)),
    }
    _check_same(arms["ours"](), arms["loop"]())
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    busy: dict[str, list[float]] = {name: [] for name in arms}  # processor time, which other programs disturb less
    for _ in range(rounds):
        for name, run in arms.items():
            started, started_busy = time.perf_counter(), time.process_time()
            run()
            seconds[name].append(time.perf_counter() - started)
            busy[name].append(time.process_time() - started_busy)

    def ratio(name: str, times: dict[str, list[float]] = seconds) -> float:
        return statistics.median(a / b for a, b in zip(times[name], times["ours"], strict=True))

    found = {"fisher_vs_loop": ratio("loop"), "fisher_vs_loop_one_backward": ratio("loop with one backward")}
    size = f"{encoder.depth} x {encoder.width}, {len(tokens)} texts of {tokens.lengths.mean():.1f} tokens"
    ratios = f"{found['fisher_vs_loop']:.2f}x the loop, {found['fisher_vs_loop_one_backward']:.2f}x with one backward"
    ratios += f" (processor time {ratio('loop', busy):.2f}x, {ratio('loop with one backward', busy):.2f}x)"
    times = ", ".join(f"{name} {min(values):.2f} s" for name, values in seconds.items())
    print(f"Fisher diagonal, {size} | {ratios} | {times}")
    return found


def loop(encoder: Encoder, head: FamilyHead, tokens: Tokens, *, one_backward: bool) -> Diagonals:
    """The diagonal by one text at a time through the stock model."""
    layers = encoder.parts().layers
    encoder.model.requires_grad_(False)
    parameters = [parameter.requires_grad_() for named in layers for parameter in named.values()]
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for row in range(len(tokens)):
        ids = torch.as_tensor(tokens.take([row]).ids)[None]
        logits = head(encoder.model(input_ids=ids).last_hidden_state)[0]
        log_p = logits.log_softmax(0)
        p = log_p.detach().exp()
        answers = list(zip(p.tolist(), log_p, strict=True))
        if one_backward:
            answers = [(1.0, (p[0] * p[1]).sqrt() * (logits[0] - logits[1]))]
        for number, (weight, log_one) in enumerate(answers, start=1):
            found = torch.autograd.grad(log_one, parameters, retain_graph=number < len(answers))
            for into, gradient in zip(sums, found, strict=True):
                into.addcmul_(gradient, gradient, value=weight / len(tokens))
    encoder.model.requires_grad_(True)
    rest = iter(sums)
    return [{name: next(rest) for name in named} for named in layers]


def _check_same(ours: object, theirs: object) -> None:
    assert isinstance(ours, list) and isinstance(theirs, list)
    for mine, other in zip(ours, theirs, strict=True):
        for name, value in other.items():
            if not name.endswith("key.bias"):  # zero but for rounding
                error = float((mine[name][0] - value).norm() / value.norm())
                assert error < 1e-4, f"{name}: {error}"


def minilm(path: Path = TEXTS, *, texts: int = 100, seed: int = 0) -> tuple[Encoder, Tokens]:
    """A random encoder of MiniLM-L12's size, and real SST-2 texts."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536
    )
    encoder = Encoder(transformers.BertModel(config), load_encoder().tokenizer, name="random MiniLM-L12")
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    chosen = random.Random(seed).sample(rows, texts)
    return encoder, encoder.tokenize([row["sentence"] for row in chosen])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=Path, default=TEXTS, help="SST-2's train.tsv")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(json.dumps(compare_fisher(*minilm(given.texts), rounds=given.rounds)))
