"""Pages in a real browser: everything is drawn, nothing is asked for, and hostile text stays text.

`make test-browser` installs what is needed; `FROSTLINE_CHROMIUM` names another browser.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest
from tests.report.report_tools import make_measurement, make_study
from tests.search.race_tools import propose_only, save_shallow, skip_slow_parts, write_rows

import frostline
from frostline.records import Plan, Recipe
from frostline.report.live import serving
from frostline.report.notebook import layer_stack
from frostline.report.pages import page_of, write_report
from frostline.report.result_folder import open_folder
from frostline.studies import STUDIES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

HOSTILE = (
    "</title></script><script>window.hacked = 1</script><img src='http://127.0.0.1:9/x' onerror='window.hacked = 2'>"
    "<svg/onload=window.hacked=3> javascript:window.hacked=4 {{ 7 * 7 }} \u202eright to left\u2066"
)
LONG = "unbreakable" * 1000
RECIPE = Recipe(epochs=2, batch=16, threads=1)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = os.environ.get("FROSTLINE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "no chromium here: `make test-browser` says how to get it"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


class Seen:
    """A page in the browser, and what it said and asked for."""

    def __init__(self, browser, address, *, width=1100, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        count = self.page.locator(".chart").count()
        self.page.wait_for_function(f"document.querySelectorAll('.chart[data-drawn=yes]').length === {count}")
        self.charts = count

    def close(self):
        self.page.close()


@pytest.fixture
def see(browser):
    opened = []

    def look(path, **options):
        opened.append(Seen(browser, path if isinstance(path, str) else path.absolute().as_uri(), **options))
        return opened[-1]

    yield look
    for one in opened:
        one.close()


def make_run(folder, *, names=("no", "yes"), because="a reason", file="letters.csv"):
    """A run of two plans on a tiny encoder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FROSTLINE_CACHE", str(folder / "cache"))
        skip_slow_parts(patch)
        propose_only(patch, [Plan.span(1, 1, 1, because=because), Plan.span(2, 2, 2, because=because)], source="test")
        encoder = save_shallow(folder / "tiny")
        rows = write_rows(folder / file, 160, names=names)
        return frostline.run(encoder, rows, output=folder / "run", recipe=RECIPE)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    found = make_run(folder, names=(HOSTILE, LONG), because=HOSTILE, file="<img src=x onerror=hacked>.csv")
    told = json.loads((found.folder / "run.json").read_text())
    told |= {"notes": [HOSTILE, LONG], "failed": [HOSTILE, LONG], "task": {**told["task"], "name": LONG}}
    (found.folder / "run.json").write_text(json.dumps(told))
    lines = [json.loads(line) for line in (found.folder / "predictions.jsonl").read_text().splitlines()]
    for line in lines:
        line["text"] = HOSTILE + LONG
    (found.folder / "predictions.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    write_report(found.folder)
    return found


# Everything is drawn -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 380])
def test_a_run_is_drawn_whole_at_any_width_and_asks_for_nothing(run, see, width, scheme):
    seen = see(run.folder / "report.html", width=width, scheme=scheme)
    assert seen.charts >= 5
    assert seen.said == []
    assert [address for address in seen.asked if not address.startswith("file:")] == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_drawing_of_the_layers_is_that_of_the_plan(run, see):
    seen = see(run.folder / "report.html")
    roles = seen.page.locator(".stack li").evaluate_all("found => found.map(one => one.className)")
    assert roles == [part["role"] for part in layer_stack(run.tuned.plan, run.scores.depth)]
    colours = seen.page.locator(".stack li.tuned").evaluate_all(
        "f => f.map(one => getComputedStyle(one).backgroundColor)"
    )
    assert set(colours) == {"rgb(213, 94, 0)"}


def test_pointing_at_a_plan_says_its_values_and_its_reason(run, see):
    seen = see(run.folder / "report.html")
    point = seen.page.locator("#figure-race .mark-symbol path").first
    point.scroll_into_view_if_needed()
    point.hover()
    tip = seen.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "a reason" in tip.inner_text()
    race = next(one for one in page_of(open_folder(run.folder)).figures if one.name == "race")
    said = dict(tip.locator("tr").evaluate_all("found => found.map(one => [...one.cells].map(cell => cell.innerText))"))
    mine = next(row for row in race.rows if row["plan"] == said["plan"])
    assert float(said["validation"]) == pytest.approx(mine["validation"], rel=1e-3)


def test_everything_can_be_reached_by_keyboard(run, see):
    seen = see(run.folder / "report.html")
    wanted = "a[href], summary, [tabindex='0']"
    for _ in range(2 * seen.page.locator(wanted).count()):
        seen.page.keyboard.press("Tab")
        seen.page.evaluate("document.activeElement.dataset.reached = 'yes'")
    reached = seen.page.locator("[data-reached=yes]").evaluate_all("found => found.map(one => one.tagName)")
    assert {"A", "SUMMARY", "DIV"} <= set(reached)  # links, what unfolds, tables that scroll
    missed = seen.page.locator(wanted).evaluate_all(
        "found => found.filter(one => one.checkVisibility() && !one.dataset.reached).map(one => one.outerHTML)"
    )
    assert missed == []


def test_a_measurement_is_drawn(see, tmp_path):
    seen = see(write_report(make_measurement(tmp_path / "scores")))
    assert seen.charts == 2
    assert seen.said == []
    assert [address for address in seen.asked if not address.startswith("file:")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_printed_can_be_read_on_white_paper(see, tmp_path, scheme):
    seen = see(write_report(make_measurement(tmp_path / "scores")), scheme=scheme)
    seen.page.emulate_media(media="print")
    drawn = seen.page.locator(".chart svg text").evaluate_all(
        "found => found.map(one => [one.getAttribute('fill'), getComputedStyle(one).fill, one.textContent])"
    )
    axes = {fill for asked, fill, _ in drawn if asked not in ("white", "#fff", "#ffffff")}
    light = [fill for fill in axes if min(map(int, fill.removeprefix("rgb(").rstrip(")").split(","))) > 150]
    assert light == []
    inside = {fill for asked, fill, _ in drawn if asked in ("white", "#fff", "#ffffff")}
    assert inside <= {"rgb(255, 255, 255)"}  # in dark squares, which are printed dark


@pytest.mark.parametrize("name", STUDIES.names())
def test_every_study_is_drawn(name, see, tmp_path):
    seen = see(write_report(make_study(tmp_path / name, name)))
    assert seen.charts >= 1
    assert seen.said == []
    assert [address for address in seen.asked if not address.startswith("file:")] == []


# Hostile text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1100, 380])
def test_hostile_text_runs_nothing_asks_for_nothing_and_breaks_nothing(hostile, see, width):
    seen = see(hostile.folder / "report.html", width=width)
    assert seen.page.evaluate("window.hacked") is None
    assert [address for address in seen.asked if not address.startswith("file:")] == []
    assert seen.said == []
    assert seen.page.locator("script").count() == 3
    assert seen.page.locator("img, iframe, object, embed").count() == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    _is_read_from_left_to_right(seen.page, "footer h2")


def _is_read_from_left_to_right(page, place):
    """The direction of what follows hostile text is not turned: letters stand in the order in which they come."""
    places = page.locator(place).first.evaluate("""element => {
        const text = element.firstChild, range = document.createRange();
        return [...text.textContent].map((_, number) => {
            range.setStart(text, number); range.setEnd(text, number + 1);
            return range.getBoundingClientRect().left;
        });
    }""")
    assert len(places) > 5
    assert places == sorted(places)


@pytest.mark.parametrize("kind", ["study", "measurement"])
def test_hostile_names_of_encoders_and_tasks_stay_text_on_other_pages(kind, see, tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze") if kind == "study" else make_measurement(tmp_path / "scores")
    for file in ("tables.json", "study.json", "scores.json"):
        if (folder / file).exists():
            told = (folder / file).read_text()
            for name, hostile in (('"tiny"', HOSTILE), ('"letters"', HOSTILE + LONG)):
                told = told.replace(name, json.dumps(hostile))
            (folder / file).write_text(told)
    seen = see(write_report(folder), width=380)
    assert "window.hacked" in seen.page.inner_text("body")  # it is there, as text
    assert seen.page.evaluate("window.hacked") is None
    assert [address for address in seen.asked if not address.startswith("file:")] == []
    assert seen.said == []
    assert seen.page.locator("img, iframe, object, embed").count() == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380
    _is_read_from_left_to_right(seen.page, "footer h2")


def test_the_policy_stops_a_script_that_gets_in_all_the_same(run, see):
    seen = see(run.folder / "report.html")
    seen.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", "<img src='http://127.0.0.1:9/x' onerror='window.hacked = 2'>");
    }""")
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("window.hacked") is None


# The live view -------------------------------------------------------------------------------------------------------


def test_the_live_view_follows_a_study(see, tmp_path):
    folder = make_study(tmp_path / "freeze", "freeze", is_over=False)
    (folder / "progress.json").write_text(json.dumps({"done": 1, "total": 8, "seconds_left": 120}))
    with serving(folder) as address:
        seen = see(address)
        assert "1 of 8 trials done, about 2 min left" in seen.page.inner_text("main")
        (folder / "progress.json").write_text(json.dumps({"done": 5, "total": 8, "seconds_left": 60}))
        seen.page.wait_for_selector("text=5 of 8 trials done", timeout=30_000)
        shutil.copytree(make_study(tmp_path / "done", "freeze"), folder, dirs_exist_ok=True)
        (folder / "progress.json").unlink()
        seen.page.wait_for_selector(".chart[data-drawn=yes]", timeout=30_000)
        assert {url for url in seen.asked if not url.startswith(address)} == set()
