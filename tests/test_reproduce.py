"""The page on reproduction: every result of the papers has a command, and every command is one that can be typed."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from docs.full_size import official_encoder, points_of, read_command, trials_of
from docs.official_sizes import SIZES
from docs.reproduce import command_of, commands, flops_of, known_sizes
from tests.studies.test_golden_tables import GOLDEN
from tests.tasks.test_official_files import OFFICIAL

from frostline.records import Plan
from frostline.studies import STUDIES

# Figures and tables with results; the others show ideas, settings and data sets.
RESULTS = {
    "Xie et al. 2022": {"figure": range(3, 18), "table": (1, 2, *range(6, 13))},
    "Lodha et al. 2023": {"figure": range(1, 8), "table": (4, 5)},
    "Tamkin et al. 2020": {"figure": range(2, 9), "table": (1,)},
    "Phang et al. 2021": {"figure": range(1, 8), "table": ()},
    "Lee et al. 2019": {"figure": (1,), "table": range(1, 6)},
}
# Rows of the development sets: Lodha et al. 2023, tables 2 and 3.
LODHA_ROWS = {
    "glue/qnli": 5463, "glue/sst2": 872, "glue/cola": 1043, "glue/mrpc": 408, "glue/rte": 277, "glue/wnli": 71,
    "glue/stsb": 1500, "glue/qqp": 40430, "glue/mnli": 9815, "super_glue/cb": 56, "super_glue/copa": 100,
    "super_glue/multirc": 4848, "super_glue/wic": 638, "super_glue/wsc": 104, "super_glue/boolq": 3270,
}  # fmt: skip
PARTS = [(study, part) for study in map(STUDIES.__getitem__, STUDIES.names()) for part in study.reproduces]


def numbers_of(item):
    """The numbers of figures and tables in words such as 'figures 2 to 5 and table 1', by kind."""
    found = {"figure": set(), "table": set()}
    for kind, words in re.findall(r"(figure|table)s? ([\d, ]+(?:(?:and|to) \d+)?)", item):
        numbers = [int(number) for number in re.findall(r"\d+", words)]
        found[kind] |= set(range(numbers[0], numbers[1] + 1) if " to " in words else numbers)
    return found


@pytest.mark.parametrize("paper", RESULTS)
def test_every_figure_and_table_with_results_has_a_command(paper):
    found = [numbers_of(part.item) for study, part in PARTS if (part.paper or study.paper) == paper]
    for kind, numbers in RESULTS[paper].items():
        assert set(chain(*(one[kind] for one in found))) == set(numbers)


@pytest.mark.parametrize("line", commands(), ids=lambda line: line.split("--output ")[1])
def test_every_command_is_parsed_and_yields_trials(line):
    study, asked = read_command(line)
    assert asked.protocol == "paper"
    assert not asked.quick
    points = points_of(line)
    assert {point["encoder"] for point in points} == set(asked.encoders)
    assert {point.spec.task.name for point in points} == set(asked.tasks or study.tasks)


def test_every_command_writes_to_a_folder_of_its_own():
    folders = [line.split("--output ")[1] for line in commands()]
    assert len(set(folders)) == len(folders) == len(PARTS)


def test_a_command_that_cannot_be_typed_is_refused():
    with pytest.raises(Exception, match="No such option"):
        read_command("frostline study freeze --sedes 2")
    with pytest.raises(Exception, match="unknown option 'stepp'"):
        points_of("frostline study freeze --encoder FacebookAI/roberta-base --option stepp=2")


@pytest.mark.parametrize(("study", "part"), PARTS, ids=[command_of(*part).split("--output ")[1] for part in PARTS])
def test_it_names_tables_and_figures_that_the_study_has(study, part):
    folders = [folder for folder in GOLDEN.iterdir() if folder.name.split("-")[0] == study.name]
    tables = {re.sub(r"-\d+$", "", path.stem) for folder in folders for path in folder.iterdir()}
    assert {re.sub(r"-\d+$", "", table) for table in part.tables} <= tables
    drawn = (GOLDEN.parent / "drawn" / study.name / "figures.txt").read_text(encoding="utf-8")
    names = re.findall(r"^== ([\w-]+):", drawn, flags=re.MULTILINE)
    other_modes = {"reinitialise": {"blocks", "preserved", "single"}}.get(study.name, set())  # drawn elsewhere
    assert set(part.figures) <= {*names, *other_modes}


def test_flops_are_those_of_the_matrix_products():
    """Full tuning of BERT-base: three times a forward pass, and a forward pass over the development set every epoch."""
    line = "frostline study skip --encoder google-bert/bert-base-uncased --tasks glue/sst2 --seeds 1 --protocol paper"
    (spec,) = trials_of(line).values()
    config, size = official_encoder("google-bert/bert-base-uncased").config, SIZES["glue/sst2"]
    width, wide = config.hidden_size, config.intermediate_size
    layer = 2 * size.tokens * (4 * width**2 + 2 * width * wide) + 4 * width * size.tokens**2
    # In training, the last layer runs for the one token that the head reads: each of its queries, mapped by the keys,
    # meets all states, and their weighted sum is mapped by the values.
    last = 2 * (4 * width**2 + 2 * width * wide) + 4 * config.num_attention_heads * width * size.tokens
    training, dev = 3 * 4 * 10_000 * (11 * layer + last), 2 * size.dev * 12 * layer
    assert flops_of([spec], {}) == pytest.approx(training + dev, rel=0.005)
    assert flops_of([spec], {"skip": 2.0}) == pytest.approx(2 * training + dev, rel=0.005)


def test_frozen_layers_are_computed_once_for_each_depth():
    line = "frostline study freeze --encoder google-bert/bert-base-uncased --tasks glue/sst2 --option rates=1"
    specs = [spec for spec in trials_of(line).values() if spec.plan == Plan(layers=(12,), head=12)]
    one, all_seeds = flops_of(specs[:1], {}), flops_of(specs, {})
    assert len(specs) == 5
    assert all_seeds < 4 * one


def test_sizes_that_are_called_counted_are_those_of_the_official_files():
    counted = {name: (sum(size.train), size.dev) for name, size in SIZES.items() if size.known == "counted"}
    assert counted == {name: (train, dev) for name, (train, dev, *_) in OFFICIAL.items()}
    for name, (_, _, classes, _) in OFFICIAL.items():
        assert not classes or SIZES[name].train == classes


@pytest.mark.parametrize(("name", "rows"), LODHA_ROWS.items())
def test_development_sets_have_the_sizes_that_lodha_et_al_list(name, rows):
    assert SIZES[name].dev == rows


def test_the_page_names_every_size_that_was_not_verified():
    note = known_sizes()
    assert all(f"`{name}`" in note for name in SIZES)
    assert "and those of `glue/rte` and `super_glue/wic`, which are from memory" in " ".join(note.split())
