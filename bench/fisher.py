"""The exact Fisher diagonal next to the loop that a user would write: one text at a time.

The loop runs the stock Hugging Face model on one text, which needs no padding, with one backward pass per label. A
second loop is given our saving of labels, one backward pass for two classes. Both form the same diagonal as ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from sides import race, row
from torch import Tensor

from frostline.encoders.encoder import Encoder
from frostline.encoders.heads import FamilyHead, make_head
from frostline.encoders.tokens import Tokens
from frostline.scoring.fisher.sample import FisherSample
from frostline.scoring.score_inputs import Evidence
from frostline.scoring.scores.fisher import EXAMPLES

Diagonals = list[dict[str, Tensor]]


def bench_fisher(encoder: Encoder, texts: list[str], labels: Tensor, *, rounds: int = 3) -> float:
    """How many times faster the diagonal over 100 of the texts is than the loop, for two classes and one head."""
    evidence = Evidence(
        states={},
        labels=labels[:EXAMPLES],
        groups=torch.arange(EXAMPLES),
        kind="classification",
        metric="accuracy",
        pooling="mean",
        seed=0,
        encoder=encoder,
        tokens=(tokens := encoder.tokenize(texts[:EXAMPLES])),
    )
    head = make_head(encoder, labels=2, seed=0).eval()

    def ours() -> Diagonals:
        sample = FisherSample(evidence, label="expected", examples=EXAMPLES, heads=1, blocks=1)
        return [
            {name: sums[:, 0] / len(sample) for name, sums in squares.by_name().items()} for squares in sample.squares()
        ][::-1]

    _check_same(ours(), loop(encoder, head, tokens, one_backward=False))
    name = f"Fisher diagonal, {EXAMPLES} texts of {tokens.lengths.mean():.0f} tokens"
    result = race(ours, lambda: loop(encoder, head, tokens, one_backward=False), rounds=rounds)
    row(f"{name}, loop", *result)
    row(f"{name}, one backward", *race(ours, lambda: loop(encoder, head, tokens, one_backward=True), rounds=rounds))
    return result[2]


def loop(encoder: Encoder, head: FamilyHead, tokens: Tokens, *, one_backward: bool) -> Diagonals:
    """The diagonal by one text at a time through the stock model."""
    layers = encoder.parts().layers
    encoder.model.requires_grad_(False)
    parameters = [parameter.requires_grad_() for named in layers for parameter in named.values()]
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for place in range(len(tokens)):
        ids = torch.as_tensor(tokens.take([place]).ids)[None]
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


def _check_same(ours: Diagonals, theirs: Diagonals) -> None:
    for layer, other in zip(ours, theirs, strict=True):
        for name, value in other.items():
            if not name.endswith("key.bias"):  # zero but for rounding
                error = float((layer[name][0] - value).norm() / value.norm())
                assert error < 1e-4, f"{name}: {error}"


def main() -> None:
    """Run this comparison alone, on SST-2's official files in a folder given as the first argument."""
    from measure import minilm_l12

    from frostline.encoders.loading import load_encoder
    from frostline.tasks import load_task
    from frostline.tasks.splits import sample

    train = sample(load_task("glue/sst2", data_dir=Path(sys.argv[1])).train, EXAMPLES, seed=0)
    bench_fisher(minilm_l12(load_encoder().tokenizer), list(train.texts), torch.tensor(train.labels))


if __name__ == "__main__":
    main()
