"""Tags of tasks: the linguistic features and kinds of distribution shift that Lodha et al. 2023 discuss.

Section 5.1 of the paper lists six features and four kinds of shift; sections 5.3.1 and 5.3.2 and appendix A.2 place
tasks. Two more features, 'understanding propositions' and 'logical reasoning and comprehension', are what the text says
of CB and BoolQ. No task is placed under demographic shift. Where the paper places a task nowhere, or only by the name
of a feature, the tag is ours, and the preset says so (`own_tags`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

TagKind = Literal["linguistic feature", "distribution shift"]

_FEATURES = (
    "semantic understanding",
    "discourse understanding",
    "syntactic understanding",
    "coreference resolution",
    "commonsense and world knowledge",
    "textual entailment",
    "understanding propositions",
    "logical reasoning and comprehension",
)
_SHIFTS = ("domain shift", "environmental shift", "temporal drift", "demographic shift")

TAGS: Mapping[str, TagKind] = {
    **dict.fromkeys(_FEATURES, "linguistic feature"),
    **dict.fromkeys(_SHIFTS, "distribution shift"),
}
