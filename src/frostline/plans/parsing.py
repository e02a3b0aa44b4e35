"""Plans from text: written on the command line, in a JSON file, or chosen by a strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from frostline.encoders.encoder import Encoder
from frostline.errors import OptionError, RecordError, did_you_mean
from frostline.options import parse_options, read_options
from frostline.plans.methods import METHODS
from frostline.plans.strategies import STRATEGIES
from frostline.records import LayerScores, Plan
from frostline.tasks import Task

_FORMS = "as 9,12,12 or layers=2+5+9,head=12 or freeze=8, or name a strategy such as best-down, or a JSON file"
_FIELDS = {"layers": "", "head": 0, "freeze": 0, "embeddings": False, "method": "full"}
_DEEPEST = 1_000  # more layers than any encoder has


def read_plan(
    text: str,
    encoder: Encoder,
    task: Task | None = None,
    *,
    scores: LayerScores | None = None,
    seed: int = 0,
    measure: Callable[[tuple[str, ...]], LayerScores] | None = None,
) -> Plan:
    """Return the plan that a text describes.

    Args:
        text: '9,12,12', 'layers=2+5+9,head=12', 'freeze=8', a strategy such as 'top-k:k=2', or a JSON file.
        encoder: the encoder.
        task: the task, which scores have to be of.
        scores: scores measured before.
        seed: seed of strategies that draw at random.
        measure: function that returns the scores of these names, if a strategy needs some that are not given.
    """
    text = text.strip()
    if text.endswith((".json", "}")):
        return _from_json(text)
    name, _, _ = text.partition(":")
    if name in STRATEGIES:
        strategy = STRATEGIES[name]
        options = _options_of(text)
        needed = strategy.scores(options)
        if needed and (scores is None or not all(score in scores.scores for score in needed)):
            if measure is None:
                raise OptionError(f"plan {text!r}: needs measured layer scores ({', '.join(needed)})")
            scores = measure(needed)
        if scores is not None:
            _check_scores(scores, encoder, task, text)
        return strategy.plan(encoder.depth, scores, options, seed=seed)
    return parse_plan(text, encoder.depth)


def check_words(plan: Plan | str) -> None:
    """Refuse text that describes no plan for any encoder, before data and encoder are read."""
    if isinstance(plan, Plan):
        return
    text = plan.strip()
    name, _, _ = text.partition(":")
    if text.endswith((".json", "}")):
        _from_json(text)
    elif name in STRATEGIES or ":" in text:
        STRATEGIES[name].check(_options_of(text))
    else:
        parse_plan(text, _DEEPEST)


def parse_plan(text: str, depth: int) -> Plan:
    """Return the plan written as '9,12,12', 'layers=2+5+9,head=12' or 'freeze=8', for an encoder of this depth."""
    if "=" not in text:
        numbers = text.strip("() ").split(",")
        if len(numbers) != 3:
            raise OptionError(f"plan {text!r}{did_you_mean(text, STRATEGIES)}: write it {_FORMS}")
        bottom, top, head = (_number(number, text) for number in numbers)
        return _check(Plan.whole_or_span(bottom, top, head, depth=depth), depth)
    words = parse_options(text.split(","), where=f"plan {text!r}")
    fields = read_options(f"plan {text!r}", _FIELDS, words)
    head, frozen = fields["head"] if "head" in words else depth, fields["freeze"]
    if ("freeze" in words) == ("layers" in words):
        raise OptionError(f"plan {text!r}: give either layers=... or freeze=...")
    if "freeze" in words:
        if not 0 <= frozen <= head:
            raise OptionError(f"plan {text!r}: must freeze 0..{head} layers")
        layers, embeddings = tuple(range(frozen + 1, head + 1)), frozen == 0
    else:
        pieces = [] if fields["layers"] in ("", "none") else fields["layers"].split("+")
        layers, embeddings = tuple(sorted(number for piece in pieces for number in _numbers(piece, text))), False
    if "embeddings" in words:
        embeddings = fields["embeddings"]
    return _check(Plan(layers=layers, head=head, embeddings=embeddings, method=fields["method"]), depth)


def with_method(plan: Plan, text: str | None) -> Plan:
    """Return the plan with another method, written as 'lora' or 'lora:rank=8,alpha=16'."""
    if text is None:
        return plan
    name, _, _ = text.partition(":")
    words = _options_of(text)
    values = METHODS[name].check(words)
    options = {option: values[option] for option in words}
    return replace(plan, method=name, options=options, embeddings=plan.embeddings and name == "full")


def _options_of(text: str) -> dict[str, str]:
    """Return the options in the text of a strategy or a method, such as 'top-k:k=2'."""
    _, _, options = text.partition(":")
    return parse_options(options.split(",") if options else (), where=repr(text))


def _from_json(text: str) -> Plan:
    try:
        content = text if text.endswith("}") else Path(text).read_text(encoding="utf-8")
        return Plan.from_text(content)
    except OSError as error:
        raise OptionError(f"plan {text}: {error.strerror}; write it {_FORMS}") from None
    except (RecordError, UnicodeDecodeError) as error:
        raise OptionError(f'plan {text}: {error}; write a plan such as {{"layers": [11, 12], "head": 12}}') from None


def _check_scores(scores: LayerScores, encoder: Encoder, task: Task | None, text: str) -> None:
    """Refuse scores of another encoder or of other rows."""
    if scores.depth != encoder.depth:
        raise OptionError(
            f"plan {text!r}: the scores have {scores.depth} layers, but {encoder.name} has {encoder.depth}"
        )
    if scores.encoder.revision != encoder.revision:
        raise OptionError(f"plan {text!r}: the scores were measured on {scores.encoder.name}, not on {encoder.name}")
    if task is not None and scores.task.fingerprint != task.fingerprint:
        raise OptionError(
            f"plan {text!r}: the scores were measured on other rows (of {scores.task.name}) than those of "
            f"{task.name}; measure again with the same data and seed, or omit the scores"
        )


def _check(plan: Plan, depth: int) -> Plan:
    if plan.head > depth:
        raise OptionError(f"plan {plan}: the encoder has layers 1..{depth}")
    METHODS[plan.method]
    return plan


def _numbers(word: str, text: str) -> list[int]:
    """Return the numbers in '7' or '2-5'."""
    first, sign, last = word.partition("-")
    if not sign:
        return [_number(word, text)]
    return list(range(_number(first, text), _number(last, text) + 1))


def _number(word: str, text: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise OptionError(
            f"plan {text!r}{did_you_mean(text, STRATEGIES)}: {word!r} is not a layer's number; write it {_FORMS}"
        ) from None
