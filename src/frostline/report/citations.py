"""The five papers that Frostline grew from."""

from __future__ import annotations

import re

PAPERS = {
    "1": (
        "Hidden State Variability of Pretrained Language Models Can Guide Computation Reduction for Transfer Learning",
        "2210.10041",
    ),
    "2": ("On Surgical Fine-tuning for Language Encoders", "2310.17041"),
    "3": ("Investigating Transferability in Pretrained Language Models", "2004.14975"),
    "4": ("Fine-Tuned Transformers Show Clusters of Similar Representations Across Layers", "2109.08406"),
    "5": ("What Would Elsa Do? Freezing Layers During Transformer Fine-Tuning", "1911.03090"),
}


def in_full(numbers: str) -> list[str]:
    """What to look for, of a word such as '1 and 3'."""
    return [f"paper {one}: {PAPERS[one][0]}, arxiv.org/abs/{PAPERS[one][1]}" for one in re.findall(r"\d", numbers)]
