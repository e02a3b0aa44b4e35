"""The five papers that Frostline grew from."""

from __future__ import annotations

PAPERS = {
    "Xie et al. 2022": (
        "Hidden State Variability of Pretrained Language Models Can Guide Computation Reduction for Transfer Learning",
        "2210.10041",
    ),
    "Lodha et al. 2023": ("On Surgical Fine-tuning for Language Encoders", "2310.17041"),
    "Tamkin et al. 2020": ("Investigating Transferability in Pretrained Language Models", "2004.14975"),
    "Phang et al. 2021": (
        "Fine-Tuned Transformers Show Clusters of Similar Representations Across Layers",
        "2109.08406",
    ),
    "Lee et al. 2019": ("What Would Elsa Do? Freezing Layers During Transformer Fine-Tuning", "1911.03090"),
}


def with_author(source: str) -> str:
    """Return a source such as '1, section 3.1' with author and year instead of the paper's number."""
    number, comma, where = source.partition(",")
    return dict(zip("12345", PAPERS, strict=True)).get(number, number) + comma + where


def in_full(cited: str) -> list[str]:
    """Return title and address of each paper in a text such as 'Xie et al. 2022 and Tamkin et al. 2020'."""
    return [f"{name}: {title}, arxiv.org/abs/{number}" for name, (title, number) in PAPERS.items() if name in cited]
