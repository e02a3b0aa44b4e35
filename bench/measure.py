"""How fast measuring is, next to what a user would run instead. `make bench-measure`

Prints a table and, as the last line, one flat JSON object of ratios. Needs the packages torch-cka and
transformer-ranker (installed by the make target) and a folder with SST-2's official files as the first argument.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch
from sides import race, row
from transformers import BertConfig, BertModel

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores import LAYER_SCORES
from frostline.scoring.selection import DEFAULT_SCORES
from frostline.states.cka import cka_matrix
from frostline.states.pooled import pooled_states
from frostline.tasks import load_task
from frostline.tasks.splits import sample

BATCH = 32


def minilm_l12(tokenizer) -> Encoder:
    """An encoder of MiniLM-L12's size: 12 layers of width 384, random weights (speed does not depend on them)."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, num_hidden_layers=12, hidden_size=384, num_attention_heads=12, intermediate_size=1536
    )
    return Encoder(BertModel(config), tokenizer, name="MiniLM-L12 size")


def hugging_face_pass(encoder: Encoder, texts: list[str]) -> torch.Tensor:
    """What a user would write: random padded batches of 32, `output_hidden_states`, mean of tokens but the first."""
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    out = torch.empty(encoder.depth + 1, len(texts), encoder.width)
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            inputs = encoder.tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt")
            states = torch.stack(encoder.model(**inputs, output_hidden_states=True).hidden_states)
            mask = inputs["attention_mask"][None, :, 1:, None]
            out[:, rows] = (states[:, :, 1:] * mask).sum(2) / mask.sum(2)
    return out


def our_pass(encoder: Encoder, texts: list[str]) -> torch.Tensor:
    """The same states, our way."""
    return pooled_states(encoder, encoder.tokenize(texts))["mean"]


def bench_pass(encoder: Encoder, texts: list[str]) -> float:
    few = texts[:1000]
    torch.testing.assert_close(our_pass(encoder, few[:64]), hugging_face_pass(encoder, few[:64]), atol=1e-4, rtol=0)
    result = race(lambda: our_pass(encoder, few), lambda: hugging_face_pass(encoder, few), rounds=3)
    row(f"states of all layers, 1,000 texts, {encoder.name}", *result)
    return result[2]


def bench_scores(encoder: Encoder, texts: list[str], labels: torch.Tensor) -> float:
    """Seconds of the default scores without intervals over seconds of our own pass."""
    states = our_pass(encoder, texts)

    def score() -> None:
        evidence = Evidence(  # anew each time: it keeps what several scores share
            states={"mean": states},
            labels=labels,
            groups=torch.arange(len(labels)),
            kind="classification",
            metric="accuracy",
            pooling="mean",
            seed=0,
            encoder=encoder,
        )
        for name in DEFAULT_SCORES:
            LAYER_SCORES[name].estimate(evidence, uncertainty=False)

    ours, whole, ratio = race(score, lambda: our_pass(encoder, texts), rounds=3)
    row(f"default scores against our pass, {len(texts):,} texts, {encoder.name}", ours, whole, ratio)
    return 1 / ratio


def centred(gram: torch.Tensor) -> torch.Tensor:
    return gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()


def gram_route(states: torch.Tensor) -> torch.Tensor:
    """The usual route, as CKA's reference code goes: one texts-by-texts matrix per layer, compared pair by pair."""

    def cka(gram: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        first, second = centred(gram), centred(other)
        return (first * second).sum() / ((first * first).sum().sqrt() * (second * second).sum().sqrt())

    grams = [layer @ layer.T for layer in states]
    return torch.tensor([[cka(first, second) for second in grams] for first in grams])


def careful_gram_route(states: torch.Tensor) -> torch.Tensor:
    """The same without doing anything twice: each matrix centred and its length taken once."""
    grams = [centred(layer @ layer.T) for layer in states]
    norms = [(gram * gram).sum().sqrt() for gram in grams]  # `norm()` is off by 0.3% at this size
    sides = list(zip(grams, norms, strict=True))
    return torch.tensor([[(a * b).sum() / (size * other) for b, other in sides] for a, size in sides])


def bench_cka(encoder: Encoder, texts: list[str]) -> tuple[float, float, float]:
    few = our_pass(encoder, texts[:1000])

    def torch_cka() -> torch.Tensor:
        from torch_cka import CKA

        stand_in = type("Device", (), {"device": "cpu"})()
        layers = len(few)
        matrix = torch.zeros(layers, layers, 3)
        for i, x in enumerate(few):
            k = x @ x.T
            k.fill_diagonal_(0.0)
            matrix[i, :, 0] += CKA._HSIC(stand_in, k, k)
            for j, y in enumerate(few):
                l = y @ y.T  # noqa: E741
                l.fill_diagonal_(0.0)
                matrix[i, j, 1] += CKA._HSIC(stand_in, k, l)
                matrix[i, j, 2] += CKA._HSIC(stand_in, l, l)
        return matrix[:, :, 1] / (matrix[:, :, 0].sqrt() * matrix[:, :, 2].sqrt())

    torch.testing.assert_close(cka_matrix(few).float(), torch_cka(), atol=5e-3, rtol=0)
    result = race(lambda: cka_matrix(few), torch_cka, rounds=3)
    row("CKA of 13 x 13 layers, 1,000 texts, torch_cka", *result)
    many = our_pass(encoder, texts[:5000])
    for route in (gram_route, careful_gram_route):
        torch.testing.assert_close(cka_matrix(many, unbiased=False).float(), route(many), atol=1e-3, rtol=0)
    usual = race(lambda: cka_matrix(many), lambda: gram_route(many), rounds=1)
    row(f"CKA of 13 x 13 layers, {many.shape[1]:,} texts, texts-by-texts matrices", *usual)
    careful = race(lambda: cka_matrix(many), lambda: careful_gram_route(many), rounds=3)
    row("the same, nothing done twice", *careful)
    return result[2], usual[2], careful[2]


def bench_ranker(encoder: Encoder, texts: list[str], labels: torch.Tensor) -> tuple[float, float]:
    from transformer_ranker.estimators import HScore, LogME

    states = our_pass(encoder, texts)
    from frostline.scoring.scores.hscore import hscore
    from frostline.scoring.scores.logme import log_evidence

    targets = torch.nn.functional.one_hot(labels).double()
    logme = race(
        lambda: [log_evidence(layer.double(), targets) for layer in states],
        lambda: [LogME().fit(embeddings=layer, labels=labels) for layer in states],
        rounds=3,
    )
    row(f"LogME of 13 layers, {len(texts):,} texts, transformer-ranker", *logme)
    other = race(
        lambda: hscore(states, labels),
        lambda: [HScore().fit(embeddings=layer, labels=labels) for layer in states],
        rounds=3,
    )
    row(f"H-score of 13 layers, {len(texts):,} texts, transformer-ranker", *other)
    return logme[2], other[2]


def main() -> None:
    """Run all comparisons."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    train = sample(load_task("glue/sst2", data_dir=folder).train, 5000, seed=0)
    texts, labels = list(train.texts), torch.tensor(train.labels)
    small = load_encoder()
    large = minilm_l12(small.tokenizer)
    print(f"{torch.get_num_threads()} threads\n{'':58s} {'ours':>9s}   {'theirs':>9s}   {'ratio':>7s}")
    passes = [bench_pass(encoder, texts) for encoder in (large, small)]
    overheads = [bench_scores(encoder, texts, labels) for encoder in (large, small)]
    torch_cka, gram, careful = bench_cka(large, texts)
    logme, h = bench_ranker(large, texts, labels)
    from fisher import bench_fisher

    ratios = {
        "pass_vs_hf": passes[0],
        "pass_vs_hf_embedded": passes[1],
        "scores_overhead": overheads[0],
        "scores_overhead_embedded": overheads[1],
        "cka_vs_torch_cka": torch_cka,
        "cka_vs_gram": gram,
        "cka_vs_careful_gram": careful,
        "fisher_vs_loop": bench_fisher(large, texts, labels),
        "logme_vs_ranker": logme,
        "hscore_vs_ranker": h,
    }
    print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    main()
