"""The page of a run: the drawing is the plan, nothing on it can run or reach out, and everything is said as it was."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.search.race_tools import propose_only, save_shallow, skip_slow_parts, write_rows

import frostline
from frostline.records import Plan, Recipe
from frostline.report.notebook import layer_stack
from frostline.report.pages import write_report
from frostline.tasks import load_task

HOSTILE = (
    "</title></style><script>alert('1')</script><img src=x onerror='alert(2)'>"
    '"><svg/onload=alert(3)>" onclick="alert(4)" {{ 7 * 7 }}&lt;'
)
LONG = "<b>" * 3334  # 10,002 characters
PLANS = [Plan.span(1, 1, 1, because=HOSTILE), Plan.span(2, 2, 2, because=LONG)]
RECIPE = Recipe(epochs=3, batch=16, threads=1)

# All that a page consists of; whatever else is there came from the data.
TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "ol", "ul", "li", "span", "table",
    "thead", "tbody", "tr", "th", "td", "a", "bdi", "header", "nav", "main", "footer", "section", "figure",
    "figcaption", "details", "summary", "pre", "dl", "dt", "dd", "noscript", "script", "progress",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "class", "id", "href", "tabindex", "role", "aria-label",
    "scope", "type", "data-figure", "max", "value",
}  # fmt: skip


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
        # The label of one test row is wrong, so that there is an error to show.
        first, *others = task.test.labels
        test = replace(task.test, labels=(1 - first, *others))
        task = replace(task, train=replace(task.train, texts=hostile), test=test, notes=(*task.notes, HOSTILE, LONG))
        return frostline.run(encoder, task, output=folder / "run", recipe=RECIPE)


class Parsed(HTMLParser):
    """The elements, attributes, scripts and words of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words = [], [], ""
        self.roles, self.policy, self.links = [], "", []
        self.scripts, self.data = [], []
        self._inside = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes += list(values)
        self.links += [values["href"]] if "href" in values else []
        if tag == "li" and values.get("class"):
            self.roles.append(values["class"])
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag in ("script", "style"):
            self._inside = (self.data if values.get("type") else self.scripts) if tag == "script" else []

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside is None:
            self.words += data
        else:
            self._inside.append(data)


@pytest.fixture(scope="module")
def page(run):
    return (run.folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def changed(run, tmp_path):
    """Makes the page of a copy of the run in which something else is written."""

    def make(fields, *, command=None):
        folder = tmp_path / "changed"
        shutil.copytree(run.folder, folder)
        told = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(told | fields))
        if command is not None:
            about = json.loads((folder / "frostline.json").read_text())
            (folder / "frostline.json").write_text(json.dumps(about | {"command": command}))
        return write_report(folder).read_text(encoding="utf-8")

    return make


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


def test_the_drawing_on_the_page_is_that_of_the_chosen_plan(run, page, changed):
    plan = run.chosen.proposal.plan
    assert Parsed(page).roles == [part["role"] for part in layer_stack(plan, run.scores.depth)]
    other = changed({"plan": Plan.full(run.scores.depth).to_json()})
    assert Parsed(other).roles == ["head", "tuned", "tuned", "tuned"]


# What it says --------------------------------------------------------------------------------------------------------


def test_every_number_and_reason_of_the_run_is_on_the_page(run, page):
    words = Parsed(page).words
    for said in (*run.decision.why, *run.record.given_up, *run.record.notes):
        assert said in words
    for test in run.tests:
        assert f"{100 * test.low:.1f} to {100 * test.high:.1f}" in words
    for entries in run.race.rounds:
        for entry in entries:
            assert f"{entry.spec.recipe.learning_rate:g}" in words
    for score in run.scores.scores.values():
        assert score.summary in words
    assert "The race" in words


def test_every_chart_has_a_title_a_description_and_its_values(page):
    found = Parsed(page)
    specs = json.loads("".join(found.data))["specs"]
    assert found.tags.count("figure") == len(specs) >= 5
    assert found.tags.count("details") == len(specs)
    assert re.findall(r'data-figure="(\d+)"', page) == [str(number) for number in range(len(specs))]
    assert len(re.findall(r'role="img" aria-label="[^"]{30,}"', page)) == len(specs)


def test_the_hardest_rows_are_those_that_the_model_is_surest_of_and_wrong(run, page):
    lines = (run.folder / "predictions.jsonl").read_text().splitlines()
    wrong = [one for one in map(json.loads, lines) if one["split"] == "test" and one["label"] != one["prediction"]]
    worst = max(wrong, key=lambda one: one["probabilities"][one["prediction"]])
    words = Parsed(page).words
    assert worst["text"][:300] in words
    assert str(round(worst["probabilities"][worst["prediction"]], 3))[:5] in words


def test_a_run_without_test_rows_has_a_page_without_their_table(changed):
    words = Parsed(changed({"tests": []})).words
    assert "The test rows were used once" not in words
    assert "The race" in words


def test_a_run_of_one_round_with_one_plan_has_a_page(run, changed):
    rung = json.loads((run.folder / "run.json").read_text())["race"][-1][:1]
    words = Parsed(changed({"race": [rung], "tests": []})).words
    assert "Round 1" in words
    assert "Round 2" not in words


# What it must not do -------------------------------------------------------------------------------------------------


def test_whatever_names_labels_and_texts_say_the_page_stays_what_it_is(run, changed):
    told = json.loads((run.folder / "run.json").read_text())
    page = changed(
        {
            "task": {**told["task"], "name": LONG},
            "failed": [HOSTILE, LONG],
            "notes": [HOSTILE, LONG],
            "seconds": {**told["seconds"], HOSTILE: 1.0},
        },
        command=["frostline", "run", HOSTILE, LONG],
    )
    found = Parsed(page)
    assert set(found.tags) <= TAGS
    assert not [name for name in found.attributes if name.startswith("on")]
    assert set(found.attributes) <= ATTRIBUTES
    assert all(link.startswith("#") for link in found.links)
    assert len(found.scripts) == 2
    assert "alert(" not in "".join(found.scripts)
    # Escaped, not dropped, and taken for words, not for a template.
    assert found.words.count(HOSTILE) >= 3
    assert LONG in found.words


def test_the_page_of_a_run_on_hostile_files_has_none_of_their_elements(run, page):
    found = Parsed(page)
    assert set(found.tags) <= TAGS
    assert set(found.attributes) <= ATTRIBUTES
    assert "<script>alert(5)<&script> on <img src=x onerror=alert(6)>" in found.words


def test_the_page_forbids_everything_but_its_own_two_scripts(page):
    found = Parsed(page)
    policy = dict(part.split(maxsplit=1) for part in found.policy.split(";"))
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found.scripts]
    assert len(hashes) == 2
    assert policy == {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{one}'" for one in hashes),
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_has_no_address_of_anything(page):
    without_scripts = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?://", without_scripts)
    assert not re.search(r"url\(|@import", without_scripts)
    assert not {"src", "action", "srcset"} & set(Parsed(page).attributes)
