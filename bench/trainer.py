"""The Hugging Face Trainer as a user would run it, for the scripts beside this one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

from frostline.encoders.encoder import Encoder
from frostline.encoders.tokens import Tokens


def collator(
    encoder: Encoder, tokens: Tokens, labels: Sequence[float]
) -> Callable[[Sequence[int]], dict[str, torch.Tensor]]:
    """What turns places of texts into a batch that is padded to its longest text."""

    def padded(rows: Sequence[int]) -> dict[str, torch.Tensor]:
        some = tokens.take(rows)
        longest = int(some.lengths.max())
        ids = torch.full((len(rows), longest), encoder.tokenizer.pad_token_id)
        types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for number, (start, length) in enumerate(zip(some.starts, some.lengths, strict=True)):
            ids[number, :length] = torch.as_tensor(some.ids[start : start + length])
            types[number, :length] = torch.as_tensor(some.types[start : start + length])
            mask[number, :length] = 1
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": types,
            "labels": torch.tensor([labels[row] for row in rows]),
        }

    return padded


def train(
    model: Any,
    rows: Sequence[int],
    collate: Callable[[Sequence[int]], dict[str, torch.Tensor]],
    *,
    rate: float,
    epochs: int = 3,
    steps: int | None = None,
    batch: int = 32,
    warmup: float = 0.06,
    seed: int = 0,
    in_order: bool = False,
    callback: transformers.TrainerCallback | None = None,
) -> None:
    """Train a stock model in place: AdamW, linear schedule, dynamic padding, no logging and no saving.

    Args:
        model: a stock classifier.
        rows: places of the training texts.
        collate: see `collator`.
        rate: the highest learning rate.
        epochs: passes over the rows.
        steps: number of steps, instead of epochs.
        batch: rows per step.
        warmup: share of the steps over which the rate rises.
        seed: of the order of rows and dropout.
        in_order: take the rows as they come.
        callback: told of every step and epoch.
    """
    steps = steps or epochs * -(-len(rows) // batch)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            max_steps=steps,
            learning_rate=rate,
            lr_scheduler_type="linear",
            warmup_steps=round(warmup * steps),
            weight_decay=0.0,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            seed=seed,
        )
        trainer = (_InOrder if in_order else transformers.Trainer)(
            model=model,
            args=arguments,
            train_dataset=[int(row) for row in rows],
            data_collator=collate,
            callbacks=[callback] if callback is not None else None,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()


class _InOrder(transformers.Trainer):
    def _get_train_sampler(self, *args: object, **kwargs: object) -> torch.utils.data.Sampler:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def logits(
    model: Any, count: int, collate: Callable[[Sequence[int]], dict[str, torch.Tensor]], *, batch: int = 64
) -> torch.Tensor:
    """What a stock model says of texts, in order."""
    model.eval()
    outputs = []
    with torch.no_grad():
        for start in range(0, count, batch):
            given = collate(range(start, min(count, start + batch)))
            given.pop("labels")
            outputs.append(model(**given).logits)
    return torch.cat(outputs)


def stock_classifier(encoder: Encoder, labels: int, *, seed: int = 0) -> Any:
    """The stock classifier on the encoder's weights, with a fresh head."""
    config = type(encoder.config).from_dict(encoder.config.to_dict())
    config.num_labels = labels
    torch.manual_seed(seed)
    stock = transformers.AutoModelForSequenceClassification.from_config(config)
    stock.base_model.load_state_dict(encoder.model.state_dict(), strict=False)
    return stock
