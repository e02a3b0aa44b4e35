"""Uses everything that the example package adds, as a user would; prints what came out as one JSON object.

Run in a process of its own, with the installed package on its path: `python -m tests.using_the_example FOLDER`.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.search.race_tools import save_shallow, write_rows
from tests.tiny import CONFIGS, tiny_tokenizer

from frostline.cli import invoke
from frostline.encoders.families import FAMILIES
from frostline.encoders.loading import load_encoder, quiet_transformers


def output_of(*arguments: str) -> Any:
    """What a command prints as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = invoke([*arguments, "--json"])
    if code:
        raise SystemExit(f"frostline {' '.join(arguments)} ended with {code}")
    return json.loads(out.getvalue())


def save_frostbert(folder: Path) -> str:
    """A folder with a tiny model of the package's own family."""
    from frostline_example.family import FrostBertConfig, FrostBertModel

    torch.manual_seed(0)
    sizes = {**CONFIGS["bert"].to_dict(), "num_hidden_layers": 2, "model_type": "frostbert"}
    with quiet_transformers():
        FrostBertModel(FrostBertConfig(**sizes)).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def main(folder: Path) -> dict[str, Any]:
    """Every command that shows or uses a plug-in."""
    bert, data = str(save_shallow(folder / "bert")), str(write_rows(folder / "rows.csv"))
    on_bert = [data, "--model", bert, "--threads", "1"]
    brief = ["--epochs", "1", "--no-cache"]
    found = {
        "scores": output_of("measure", "--list-scores"),
        "strategies": output_of("tune", "--list-plans"),
        "methods": output_of("tune", "--list-methods"),
        "encoders": output_of("encoders"),
        "studies": output_of("study", "--list"),
        "measured": output_of("measure", *on_bert, "--scores", "loudness"),
        "planned": output_of("plan", *on_bert, "--epochs", "1", "--best"),
        "by strategy": output_of("tune", *on_bert, *brief, "--plan", "loudest:keep_top=no"),
        "by method": output_of("tune", *on_bert, *brief, "--plan", "2,2,2", "--method", "queries:keys=yes"),
    }
    own = save_frostbert(folder / "frostbert")
    on_own = [data, "--model", own, "--threads", "1"]
    found["family"] = load_encoder(own).family is FAMILIES["frostbert"]
    found["measured on family"] = output_of("measure", *on_own, "--scores", "loudness,variability")
    found["tuned on family"] = output_of("tune", *on_own, *brief, "--plan", "2,2,2", "--output", str(folder / "tuned"))
    found["studied"] = output_of(
        "study", "one-layer", "--encoder", bert, "--tasks", data, "--seeds", "1", *brief, "--no-estimate",
        "--output", str(folder / "study"),
    )  # fmt: skip
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
