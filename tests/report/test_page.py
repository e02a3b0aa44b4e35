"""The page of a run: the drawing is the plan, nothing on it can run or reach out, and everything is said as it was."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.race_tools import propose_only, save_shallow, skip_slow_parts, write_rows

import frostline
from frostline.records import Plan, Recipe
from frostline.report import write_page
from frostline.report.page import layer_stack
from frostline.tasks import load_task

HOSTILE = (
    "</title></style><script>alert('1')</script><img src=x onerror='alert(2)'>"
    '"><svg/onload=alert(3)>" onclick="alert(4)" {{ 7 * 7 }}&lt;'
)
LONG = "<b>" * 3334  # 10,002 characters
PLANS = [Plan.span(1, 1, 1, because=HOSTILE), Plan.span(2, 2, 2, because=LONG)]
RECIPE = Recipe(epochs=3, batch=16, threads=1)

# All that the page consists of; whatever else is there came from the data.
TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "ol", "ul", "li", "span", "table", "tr",
    "th", "td", "b", "code",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "style", "title", "aria-label"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two plans in two rounds, on texts and labels that are hostile."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(folder / "cache"))
        skip_slow_parts(patch)
        propose_only(patch, PLANS, source=HOSTILE)
        encoder = save_shallow(folder / "<script>alert(5)<&script>")
        rows = write_rows(folder / "<img src=x onerror=alert(6)>.csv", names=(HOSTILE, LONG))
        task = load_task(rows)
        hostile = tuple(f"{HOSTILE} {text}" for text in task.train.texts)
        task = replace(task, train=replace(task.train, texts=hostile), notes=(*task.notes, HOSTILE, LONG))
        return frostline.run(encoder, task, output=folder / "run", recipe=RECIPE)


class Parsed(HTMLParser):
    """The elements, attributes and words of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words = [], [], ""
        self.roles, self.policy = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes += list(values)
        if tag == "li" and values.get("class"):
            self.roles.append(values["class"])
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def page(run):
    return (run.folder / "report.html").read_text(encoding="utf-8")


# The drawing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "top_down"),
    [
        (Plan.span(2, 3, 3), "dropped dropped head tuned tuned frozen frozen"),
        (Plan.span(4, 5, 5), "head tuned tuned frozen frozen frozen frozen"),
        (Plan.span(2, 3, 5), "head frozen frozen tuned tuned frozen frozen"),
        (Plan.full(5), "head tuned tuned tuned tuned tuned tuned"),
        (Plan.span(1, 5, 5), "head tuned tuned tuned tuned tuned frozen"),
        (Plan(layers=(), head=1), "dropped dropped dropped dropped head frozen frozen"),
        (Plan(layers=(1, 3), head=4), "dropped head frozen tuned frozen tuned frozen"),
    ],
    ids=str,
)
def test_the_drawing_shows_what_becomes_of_each_layer_from_the_top_down(plan, top_down):
    stack = layer_stack(plan, 5)
    assert [part["role"] for part in stack] == top_down.split()
    layers = [part["name"] for part in stack if part["role"] != "head"]
    assert layers == ["layer 5", "layer 4", "layer 3", "layer 2", "layer 1", "embeddings"]
    # The head lies on the layer that it reads.
    at = [part["role"] for part in stack].index("head")
    assert stack[at + 1]["name"] == f"layer {plan.head}"


def test_the_drawing_on_the_page_is_that_of_the_chosen_plan(run, page):
    plan = run.decision.chosen.proposal.plan
    assert Parsed(page).roles == [part["role"] for part in layer_stack(plan, run.scores.depth)]
    other = replace(run, tuned=replace(run.tuned, plan=Plan.full(run.scores.depth)))
    path = run.folder.parent / "other.html"
    write_page(other, path)
    assert Parsed(path.read_text(encoding="utf-8")).roles == ["head", "tuned", "tuned", "tuned"]


# What it says --------------------------------------------------------------------------------------------------------


def test_every_number_and_reason_of_the_run_is_on_the_page(run, page):
    words = Parsed(page).words
    for said in (*run.decision.why, *run.given_up, *run.notes):
        assert said in words
    for test in run.tests:
        assert f"{100 * test.low:.1f} to {100 * test.high:.1f}" in words
    for rung in run.race.rungs:
        for entry in rung:
            assert f"{entry.spec.recipe.learning_rate:g}" in words
    for score in run.scores.scores.values():
        assert f"{score.name} ({score.better} is good)" in words
    assert f"{len(run.tuned.task.validation)} validation rows" in words


def test_a_run_without_test_rows_has_a_page_without_their_table(run, tmp_path):
    write_page(replace(run, tests=()), tmp_path / "page.html")
    words = Parsed((tmp_path / "page.html").read_text(encoding="utf-8")).words
    assert "On the test rows" not in words
    assert "The race" in words


# What it must not do -------------------------------------------------------------------------------------------------


def test_whatever_names_labels_and_texts_say_the_page_stays_what_it_is(run, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["frostline", "run", HOSTILE, LONG])
    scores = replace(run.scores, task={**run.scores.task, "name": LONG})
    race = replace(run.race, failed=(HOSTILE, LONG))
    path = run.folder.parent / "hostile.html"
    write_page(replace(run, race=race, scores=scores, seconds={**run.seconds, HOSTILE: 1.0}), path)
    found = Parsed(path.read_text(encoding="utf-8"))
    assert set(found.tags) <= TAGS
    assert "script" not in found.tags
    assert not [name for name in found.attributes if name.startswith("on")]
    assert set(found.attributes) <= ATTRIBUTES
    # Escaped, not dropped, and taken for words, not for a template.
    assert found.words.count(HOSTILE) >= 5
    assert LONG in found.words


def test_the_page_of_a_run_on_hostile_files_has_none_of_their_elements(run, page):
    found = Parsed(page)
    assert set(found.tags) <= TAGS
    assert set(found.attributes) <= ATTRIBUTES
    assert "<script>alert(5)<&script> on <img src=x onerror=alert(6)>" in found.words


def test_the_page_forbids_scripts_and_everything_from_elsewhere(page):
    policy = dict(part.split(maxsplit=1) for part in Parsed(page).policy.split(";"))
    assert policy == {"default-src": "'none'", "style-src": "'unsafe-inline'"}


def test_the_page_has_no_address_of_anything(page):
    assert not re.search(r"https?://", page)
    assert not re.search(r"url\(|@import", page)
    assert not {"src", "href", "action", "srcset"} & set(Parsed(page).attributes)
