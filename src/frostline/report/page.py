"""One HTML file that opens offline: a drawing of the layers, the decision, the tests, the race, the scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frostline.card import command_line
from frostline.records import LayerScores, Plan

if TYPE_CHECKING:
    from frostline.found import Run
    from frostline.race import Entry

_TEMPLATES = Path(__file__).parent


def write_page(run: Run, path: Path) -> None:
    """Write the page of a run."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    path.write_text(environment.get_template("run.html").render(**_content(run)), encoding="utf-8")


def _content(run: Run) -> dict[str, Any]:
    chosen, metric = run.decision.chosen, run.tuned.task.metrics[0]
    return {
        "title": f"{run.scores.encoder['name']} on {run.scores.task['name']}",
        "stack": layer_stack(run.tuned.plan, run.scores.depth),
        "plan": chosen.name,
        "why": run.decision.why,
        "given_up": run.given_up,
        "metric": metric,
        "tests": [
            {
                "name": test.name,
                "plan": test.entry.name,
                "value": f"{100 * test.metrics[metric]:.1f}",
                "interval": f"{100 * test.low:.1f} to {100 * test.high:.1f}",
                "difference": str(test.choice_minus_it or ("" if test is run.tests[0] else "the same plan")),
                "trainable": f"{test.entry.proposal.cost.trainable:,}",
                "latency": f"{100 * test.entry.proposal.cost.latency:.0f}%",
            }
            for test in run.tests
        ],
        "rungs": [[_race_row(entry, run) for entry in rung] for rung in run.race.rungs],
        "rows": len(run.tuned.task.validation or ()),
        "failed": run.race.failed,
        "scores": _score_table(run.scores),
        "notes": run.notes,
        "seconds": {name: f"{value:.1f} s" for name, value in run.seconds.items()},
        "command": command_line().strip("`"),
    }


def layer_stack(plan: Plan, depth: int) -> list[dict[str, str]]:
    """The layers from the top down, each with its role: head, tuned, frozen or dropped."""
    stack = []
    for layer in range(depth, 0, -1):
        role = "dropped" if layer > plan.head else "tuned" if layer in plan.layers else "frozen"
        if layer == plan.head:
            stack.append({"name": "head", "role": "head"})
        stack.append({"name": f"layer {layer}", "role": role})
    stack.append({"name": "embeddings", "role": "tuned" if plan.embeddings else "frozen"})
    return stack


def _race_row(entry: Entry, run: Run) -> Mapping[str, str]:
    cost, metric = entry.proposal.cost, run.tuned.task.metrics[0]
    gap = run.decision.against_best.get(entry.spec.id)
    return {
        "plan": entry.name,
        "sources": entry.proposal.origins,
        "because": entry.proposal.plan.because,
        "value": f"{100 * entry.result.metrics['validation'][metric]:.1f}",
        "gap": "" if gap is None else str(gap),
        "rows": f"{entry.rung.train_rows:,}",
        "epochs": str(entry.rung.epochs),
        "rate": f"{entry.spec.recipe.learning_rate:g}",
        "trainable": f"{cost.trainable:,}",
        "latency": f"{100 * cost.latency:.0f}%",
        "seconds": f"{entry.seconds:.1f}",
        "mark": "chosen" if entry.spec.id == run.decision.chosen.spec.id else "",
    }


def _score_table(scores: LayerScores) -> dict[str, Any]:
    found = list(scores.scores.values())
    return {
        "names": [f"{score.name} ({score.better} is good)" for score in found],
        "summaries": [(score.name, score.summary) for score in found],
        "lines": [
            [
                "embeddings" if layer == 0 else str(layer),
                *(
                    {"value": _number(score.values[layer]), "best": layer == score.best, "tied": layer in score.tied}
                    for score in found
                ),
            ]
            for layer in range(scores.depth + 1)
        ],
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
