"""Train SetFit on the rows in a file; `bench/setfit.py` runs this in SetFit's own environment.

python bench/setfit_worker.py CASE.json RESULT.json
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from transformers import ProgressCallback


def load(folder: str, max_length: int) -> SetFitModel:
    """Return an untrained SetFit model on the encoder in a folder, pooled as all-MiniLM-L6-v2 was trained to be."""
    transformer = Transformer(folder, max_seq_length=max_length)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    body = SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu")
    return SetFitModel(model_body=body, model_head=LogisticRegression())


def train(model: SetFitModel, case: dict, folder: str) -> list[float]:
    """Train and save the model; return the losses that were logged."""
    arguments = TrainingArguments(
        output_dir=f"{folder}/checkpoints",
        num_iterations=case["iterations"],
        seed=case["seed"],
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        show_progress_bar=False,
    )
    rows = Dataset.from_dict({"text": case["texts"], "label": case["labels"]})
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.st_trainer.remove_callback(ProgressCallback)
    trainer.train()
    model.save_pretrained(f"{folder}/model")
    history = trainer.st_trainer.state.log_history
    return [line["embedding_loss"] for line in history if "embedding_loss" in line]


def main() -> None:
    """Read the case, train, predict the test rows, write the result."""
    case_file, result_file = (Path(name) for name in sys.argv[1:])
    case = json.loads(case_file.read_text(encoding="utf-8"))
    torch.set_num_threads(case["threads"])
    with threadpool_limits(case["threads"]), tempfile.TemporaryDirectory() as folder:
        model = load(case["encoder"], case["max_length"])
        computing, wall = time.process_time(), time.perf_counter()
        losses = train(model, case, folder)
        spent = {"seconds": time.process_time() - computing, "wall": time.perf_counter() - wall}
        predictions = [int(label) for label in model.predict(case["test_texts"], show_progress_bar=False)]
    result = {"predictions": predictions, **spent, "losses": losses}
    result_file.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
