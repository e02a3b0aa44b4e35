"""How fast tuning is, next to the Hugging Face Trainer on the same rows. `make bench-tune`

Prints a table and, as the last line, one flat JSON object of ratios. Both sides train in one process, taking turns,
with the same threads, at MiniLM-L12's size (random weights: speed does not depend on them), batch 32 and dropout 0.1.
The Trainer pads each batch to its longest text, uses SDPA, and neither logs nor saves. The first argument is a folder
with the official files of SST-2 and MNLI.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers
from sides import row, take_turns
from transformers import BertConfig, BertForSequenceClassification, BertModel

from frostline.encoders.encoder import Encoder
from frostline.encoders.loading import load_encoder
from frostline.encoders.tokens import Tokens
from frostline.records import Plan, Recipe
from frostline.states.cache import open_together
from frostline.states.frozen import StatesAt
from frostline.tasks import load_task
from frostline.tasks.splits import sample
from frostline.training.dataset import Examples
from frostline.training.loop import train
from frostline.training.model import Tunable, make_tunable

BATCH, DEPTH, FROZEN = 32, 12, 8
ROWS = {"sst2": 640, "mnli": 320}
EPOCHS = 3  # of the arms that train few layers: a run has fixed costs, and nobody trains for one short epoch
ROUNDS = 3
RATE = 1e-5


def config(labels: int) -> BertConfig:
    return BertConfig(
        vocab_size=30522,
        num_hidden_layers=DEPTH,
        hidden_size=384,
        num_attention_heads=12,
        intermediate_size=1536,
        num_labels=labels,
    )


def trainer_epoch(
    stock: torch.nn.Module, tokens: Tokens, labels: torch.Tensor, folder: str, *, by_length: bool = False
) -> Callable[[], object]:
    """One epoch of the Trainer, with dynamic padding."""
    starts = tokens.starts
    rows = [
        {"input_ids": tokens.ids[start : start + length].tolist(), "labels": int(label), "length": int(length)}
        for start, length, label in zip(starts, tokens.lengths, labels, strict=True)
    ]

    def collate(batch: list[dict[str, object]]) -> dict[str, torch.Tensor]:
        longest = max(len(example["input_ids"]) for example in batch)
        ids, mask = torch.zeros(len(batch), longest, dtype=torch.long), torch.zeros(len(batch), longest)
        for number, example in enumerate(batch):
            ids[number, : len(example["input_ids"])] = torch.tensor(example["input_ids"])
            mask[number, : len(example["input_ids"])] = 1
        return {
            "input_ids": ids,
            "attention_mask": mask.long(),
            "labels": torch.tensor([example["labels"] for example in batch]),
        }

    def epoch() -> None:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=1,
            learning_rate=RATE,
            weight_decay=0.0,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            train_sampling_strategy="group_by_length" if by_length else "random",
        )
        trainer = transformers.Trainer(model=stock, args=arguments, train_dataset=rows, data_collator=collate)
        trainer.remove_callback(transformers.PrinterCallback)
        with contextlib.redirect_stdout(None):
            trainer.train()

    return epoch


class Case:
    """One task at one size: both sides made ready."""

    def __init__(self, name: str, glue: Path, encoder: Encoder, folder: str) -> None:
        task = load_task(f"glue/{name}", data_dir=glue)
        split = sample(task.train, ROWS[name], seed=0)
        self.name, self.folder, self.encoder = name, folder, encoder
        self.classes = len(task.label_names)
        self.tokens = encoder.tokenize(split.texts, split.pairs, max_length=128)
        self.labels = torch.tensor(split.labels)

    def stock(self, frozen: int) -> BertForSequenceClassification:
        stock = BertForSequenceClassification(config(self.classes))
        stock.bert.load_state_dict(self.encoder.model.state_dict())
        if frozen:
            for part in (stock.bert.embeddings, *stock.bert.encoder.layer[:frozen]):
                part.requires_grad_(False)
        return stock

    def trainer(self, frozen: int, *, by_length: bool = False) -> Callable[[], object]:
        return trainer_epoch(self.stock(frozen), self.tokens, self.labels, self.folder, by_length=by_length)

    def peft(self) -> Callable[[], object]:
        from peft import LoraConfig, TaskType, get_peft_model

        adapted = get_peft_model(
            self.stock(0),
            LoraConfig(
                task_type=TaskType.SEQ_CLS,
                r=8,
                lora_alpha=16,
                target_modules=["query", "value"],
                layers_to_transform=list(range(FROZEN, DEPTH)),
            ),
        )
        return trainer_epoch(adapted, self.tokens, self.labels, self.folder)

    def tunable(self, plan: Plan) -> Tunable:
        return make_tunable(self.encoder, plan, outputs=self.classes)

    def ours(self, plan: Plan, *, epochs: int = 1) -> Callable[[], object]:
        """Epochs from kept states; keeping them is timed elsewhere."""
        tunable = self.tunable(plan)
        layers = [] if plan.lowest == 0 else [StatesAt(layer=plan.lowest - 1)]
        (states,) = open_together(tunable.encoder, self.tokens, layers)[0] or [None]
        examples = Examples(tokens=self.tokens, states=states, labels=self.labels, offsets=None)
        recipe = Recipe(epochs=epochs, batch=BATCH, learning_rate=RATE)
        return lambda: train(tunable, examples, None, recipe, metrics=("accuracy",), learning_rate=RATE)

    def keeping(self, plan: Plan) -> Callable[[], object]:
        """Computing and keeping the frozen states of all rows, in a place of its own each time."""
        encoder = self.tunable(plan).encoder

        def keep() -> None:
            with tempfile.TemporaryDirectory() as place, _cache_in(place):
                open_together(encoder, self.tokens, [StatesAt(layer=plan.lowest - 1)])

        return keep


@contextlib.contextmanager
def _cache_in(folder: str):
    import os

    before = os.environ.get("FROSTLINE_CACHE")
    os.environ["FROSTLINE_CACHE"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["FROSTLINE_CACHE"]
        else:
            os.environ["FROSTLINE_CACHE"] = before


def gemm_peak() -> float:
    """Floating-point operations per second of a large matrix product."""
    matrix = torch.randn(2048, 2048)
    matrix @ matrix
    best = 0.0
    for _ in range(10):
        started = time.perf_counter()
        matrix @ matrix
        best = max(best, 2 * 2048**3 / (time.perf_counter() - started))
    return best


def full_flops(tokens: Tokens, width: int = 384, inner: int = 1536) -> float:
    """Operations that one epoch of full fine-tuning needs: forward once, backward twice, all real tokens."""
    per_token = DEPTH * 2 * (4 * width**2 + 2 * width * inner)
    attention = DEPTH * 4 * width * float(np.square(tokens.lengths).sum())
    return 3 * (per_token * float(tokens.lengths.sum()) + attention)


TOP = tuple(range(FROZEN + 1, DEPTH + 1))
OURS = {
    "top 4 tuned": (Plan(layers=TOP, head=DEPTH), EPOCHS),
    "full": (Plan.full(DEPTH), 1),
    "top layer tuned": (Plan.span(DEPTH, DEPTH, DEPTH), EPOCHS),
    "LoRA on the top 4": (Plan(layers=TOP, head=DEPTH, method="lora"), EPOCHS),
}
PAIRS = {
    "frozen_epoch_vs_trainer_frozen": ("top 4 tuned", "Trainer, the same frozen"),
    "frozen_epoch_vs_trainer_full": ("top 4 tuned", "Trainer, full"),
    "full_epoch_vs_trainer_full": ("full", "Trainer, full"),
    "one_layer_epoch_vs_trainer_full": ("top layer tuned", "Trainer, full"),
    "lora_epoch_vs_peft": ("LoRA on the top 4", "PEFT with the Trainer"),
    "frozen_epoch_vs_trainer_full_by_length": ("top 4 tuned", "Trainer, full, by length"),
    "full_epoch_vs_trainer_full_by_length": ("full", "Trainer, full, by length"),
}


def bench(case: Case) -> dict[str, float]:
    arms = {name: case.ours(plan, epochs=epochs) for name, (plan, epochs) in OURS.items()}
    arms |= {
        "Trainer, the same frozen": case.trainer(FROZEN),
        "Trainer, full": case.trainer(0),
        "Trainer, full, by length": case.trainer(0, by_length=True),
        "PEFT with the Trainer": case.peft(),
        "keeping": case.keeping(OURS["top 4 tuned"][0]),
    }
    case.ours(OURS["full"][0])()  # warm up
    times = take_turns(arms, rounds=ROUNDS)
    for name, (_, epochs) in OURS.items():
        times[name] = [seconds / epochs for seconds in times[name]]
    print(f"{case.name}: {len(case.tokens):,} rows, {case.tokens.lengths.mean():.0f} tokens on average")
    keeping = statistics.median(times["keeping"])
    print(f"{'  keeping the states below the top 4 layers':58s} {keeping:9.3f} s", flush=True)
    ratios = {}
    for key, (ours, theirs) in PAIRS.items():
        ratios[key] = statistics.median(stock / own for own, stock in zip(times[ours], times[theirs], strict=True))
        row(f"  epoch, {ours}; {theirs}", statistics.median(times[ours]), statistics.median(times[theirs]), ratios[key])
    own, stock = (3 * statistics.median(times[name]) for name in PAIRS["frozen_epoch_vs_trainer_frozen"])
    ratios["frozen_3_epochs_with_cache_vs_trainer_frozen"] = stock / (own + keeping)
    row("  three epochs of the first, with keeping", own + keeping, stock, stock / (own + keeping))
    ratios["fraction_of_gemm_peak"] = full_flops(case.tokens) / statistics.median(times["full"]) / gemm_peak()
    return ratios


def main() -> None:
    """Run all comparisons."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    glue = Path(sys.argv[1])
    names = sys.argv[2:] or list(ROWS)
    torch.manual_seed(0)
    tokenizer = load_encoder().tokenizer
    encoder = Encoder(BertModel(config(2)), tokenizer, name="MiniLM-L12 size")
    print(f"{torch.get_num_threads()} threads, {gemm_peak() / 1e9:.0f} GFLOP/s in a matrix product")
    print(f"{'':58s} {'ours':>9s}   {'theirs':>9s}   {'ratio':>7s}")
    with tempfile.TemporaryDirectory() as folder, _cache_in(folder):
        found = [bench(Case(name, glue, encoder, folder)) for name in names]
    # Per task above; in the summary the geometric mean over tasks.
    print(json.dumps({key: round(statistics.geometric_mean([one[key] for one in found]), 3) for key in found[0]}))


if __name__ == "__main__":
    main()
