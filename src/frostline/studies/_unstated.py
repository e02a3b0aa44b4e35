"""What the papers leave unstated about training, by field of the recipe, with the reason for our choice."""

from __future__ import annotations

from collections.abc import Mapping

_CLIP = "not stated; the usual norm of the libraries that the papers build on"
_LINEAR = "not stated; linear decay is the default of the library that the paper names"

XIE_UNSTATED: Mapping[str, str] = {"clip": _CLIP}
LODHA_UNSTATED: Mapping[str, str] = {
    "select": "not stated; the last epoch, so that nothing is chosen on the rows that are judged",
    "warmup": "not stated; none is the default of the library that the paper names",
    "schedule": _LINEAR,
    "clip": _CLIP,
}
TAMKIN_UNSTATED: Mapping[str, str] = {
    "select": "the text states a number of epochs and no choice among them; the released script keeps the last weights",
    "warmup": "not in the text; the released script has none",
    "schedule": "not in the text; the released script has linear decay",
    "clip": "not in the text; as in the released script",
}
PHANG_UNSTATED: Mapping[str, str] = {
    "select": "'up to 10,000 steps' does not say whether a run can end or be read earlier; the last step is kept",
    "schedule": "not stated; linear decay usually follows a warm-up",
    "clip": _CLIP,
}
LEE_UNSTATED: Mapping[str, str] = {
    "select": "not stated; the last epoch, so that only the learning rate is chosen",
    "warmup": "not stated; 6% as in RoBERTa's own recipe, which the paper follows",
    "schedule": "not stated; linear decay as in BERT's and RoBERTa's own recipes",
    "weight_decay": "not stated; none, where BERT's own recipe has 0.01 and RoBERTa's 0.1",
    "clip": _CLIP,
}
