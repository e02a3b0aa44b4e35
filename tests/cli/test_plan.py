"""`frostline plan` on the command line: the table with reasons and costs, JSON, and one line per mistake."""

from __future__ import annotations

import contextlib
import io
import json
from html import escape
from types import SimpleNamespace

import pytest
from tests.search.race_tools import save_shallow, write_rows

from frostline.api import _plan as api_plan
from frostline.cli import invoke
from frostline.cli._shared.flags import with_flags
from frostline.records import Plan
from frostline.search import planning


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_shallow(tmp_path_factory.mktemp("models") / "shallow"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return str(write_rows(tmp_path_factory.mktemp("data") / "letters.csv"))


@pytest.fixture(scope="module")
def planned(model, rows):
    """Real plans, made once for all tests, as records and as they were printed."""
    made = []
    plan = api_plan.plan

    def remember(*given, **options):
        made.append(plan(*given, **options))
        return made[0]

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_plan, "plan", remember)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert invoke(["plan", rows, "--model", model, "--epochs", "2", "--threads", "1", "--json"]) == 0
    assert err.getvalue() == ""
    return made[0], out.getvalue()


@pytest.fixture
def known(planned, monkeypatch):
    """Measured, timed and counted already; limits are applied anew."""
    plans, _ = planned
    # Of its scores, the encoder and the task are read.
    one_pass = SimpleNamespace(scores=plans, head="family")
    monkeypatch.setattr(planning, "measure_for_plans", lambda *given, **options: one_pass)
    monkeypatch.setattr(planning, "calibrate", lambda *given, **more: None)
    monkeypatch.setattr(planning, "propose", lambda *given, **options: (list(plans.proposals), list(plans.notes)))
    return plans


def refused(capsys, *arguments: str) -> str:
    assert invoke(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return str(err)


def test_json_is_one_object_with_the_reason_and_the_cost_of_every_plan(planned):
    plans, out = planned
    found = json.loads(out)
    assert found == json.loads(json.dumps(plans.to_json()))
    assert found["kind"] == "plans"
    assert (found["encoder"]["layers"], found["task"]["name"]) == (2, "letters")
    proposals = found["proposals"]
    assert all(one["plan"]["because"] and one["sources"] for one in proposals)
    assert all(0 < one["cost"]["low"] <= one["cost"]["seconds"] <= one["cost"]["high"] for one in proposals)
    prices = [one["cost"]["frozen_flops"] + one["cost"]["epochs"] * one["cost"]["epoch_flops"] for one in proposals]
    assert prices == sorted(prices)  # the cheapest first
    assert {"full", "norm-and-bias"} <= {one["plan"]["method"] for one in proposals}
    assert any("of full fine-tuning's compute" in note for note in found["notes"])  # as in a run
    assert any(one["plan"]["embeddings"] for one in proposals)
    assert any("`allow_frostline_only=True`" in note for note in found["notes"])


def test_the_table_has_a_line_for_each_plan_with_what_it_costs_and_where_it_comes_from(known, model, rows, capsys):
    assert invoke(["plan", rows, "--model", model]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith(f"{model} (2 layers) on letters, 3 epochs")
    assert lines[2].split() == ["plan", "trainable", "saved", "latency", "memory", "cache", "seconds", "from"]
    for line, one in zip(lines[3:], known.proposals, strict=False):
        assert line.startswith(f"{one.plan.name} ")
        assert f" {one.cost.trainable:,} " in line
        assert f" {100 * one.cost.latency:.0f}% " in line
        assert f"{one.cost.seconds:.0f} ({one.cost.low:.0f} to {one.cost.high:.0f})" in line
        assert line.rstrip().endswith(one.origins)
    assert lines[3 + len(known.proposals)] == ""
    for note in known.notes:
        assert f"note: {with_flags(note)}" in " ".join(out.split())


def test_notebooks_show_the_same_table(known):
    shown = known._repr_html_()
    for row in known.table.rows:
        assert all(escape(str(cell)) in shown for cell in row)


def test_a_limit_leaves_out_what_exceeds_it_and_says_so(known, model, rows, capsys):
    assert invoke(["plan", rows, "--model", model, "--max-layers", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Plan.from_json(one["plan"]) for one in found["proposals"]] == [
        one.plan for one in known.proposals if one.plan.head == 1
    ]
    left = len(known.proposals) - len(found["proposals"])
    expected = f"`max_layers=1` excludes {left} of {len(known.proposals)} plans, including full fine-tuning"
    assert expected in found["notes"]


def test_a_limit_that_no_plan_fits_is_one_line_that_says_which_would_do(known, model, rows, capsys):
    said = refused(capsys, "plan", rows, "--model", model, "--max-trainable", "10")
    assert "no plan fits: --max-trainable 10 excludes 2 of 2 heads alone, the cheapest plans" in said
    hint = float(said.split("fit with --max-trainable ")[1].split()[0])
    least = min(one.cost.trainable for one in known.proposals)
    assert least <= hint < 1.02 * least
    assert invoke(["plan", rows, "--model", model, "--max-trainable", f"{hint:.0f}", "--json"]) == 0  # it is true
    fitting = json.loads(capsys.readouterr().out)["proposals"]
    assert fitting
    assert all(one["cost"]["trainable"] <= hint for one in fitting)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--minutes", "0"], "--minutes 0: must be above 0"),
        (["--max-layers", "0"], "--max-layers 0: must be above 0"),
        (["--max-latency", "2"], "--max-latency 2: is a share of the whole encoder's time"),
        (["--max-latency", "150%"], "--max-latency 1.5: is a share of the whole encoder's time"),
        (["--max-trainable", "5X"], "--max-trainable '5X': must be a number of parameters"),
        (["--batch", "0"], "batch 0: must be a whole number, 1 or more"),
        (["--smallest", "--best"], "--smallest and --best: choose one"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_budget_that_makes_no_sense_is_one_line_before_anything_is_read(capsys, flags, said):
    assert said in refused(capsys, "plan", "missing.csv", *flags)


def test_it_explains_itself(capsys):
    assert invoke(["plan", "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: frostline plan" in out
    assert "nothing is tuned" in out
    assert "--json" in out
