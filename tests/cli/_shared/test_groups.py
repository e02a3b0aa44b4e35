"""The groups of flags that commands share."""

from __future__ import annotations

import inspect

import pytest
import torch
from tests.cli.commands import flags_of

from frostline.cli._shared.groups import ComputeOptions, DataOptions, EncoderOptions, MachineOptions
from frostline.errors import OptionError
from frostline.records.compute import Compute
from frostline.tasks import load_task

ROWS = "".join(f"text number {row},{row % 2}\n" for row in range(60))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + ROWS)
    return str(path)


def test_the_data_is_given_by_name_or_by_flag_and_not_at_all_for_the_embedded_data(rows):
    assert DataOptions(file=rows).source == DataOptions(data=rows).source == rows
    assert DataOptions().source is None


def test_data_that_is_given_twice_or_empty_is_refused(rows):
    with pytest.raises(OptionError, match=r"data given twice: 'a\.csv' and --data 'b\.csv'"):
        DataOptions(file="a.csv", data="b.csv")
    with pytest.raises(OptionError, match="data '': is empty"):
        DataOptions(file=" ")


def test_the_task_is_what_load_task_makes_of_the_same_options(rows):
    made = DataOptions(file=rows, text="text", label="label", metric="macro_f1").load_task(seed=3)
    assert made == load_task(rows, text="text", label="label", metric="macro_f1", seed=3)


def test_every_data_option_is_an_option_of_load_task():
    known = inspect.signature(load_task).parameters
    assert set(DataOptions.__dataclass_fields__) - {"file"} <= set(known)


def test_a_kind_is_asked_for_only_where_the_user_gives_none(rows):
    assert DataOptions(file=rows).load_task(seed=0, kind="regression").kind == "regression"
    chosen = DataOptions(file=rows, kind="classification").load_task(seed=0, kind="regression")
    assert chosen.kind == "classification"


def test_rows_stay_together_where_no_splits_are_carved(rows):
    assert len(DataOptions(file=rows).load_task(seed=0, splits=False).train) == 60


def test_data_of_the_users_own_is_never_sampled(rows):
    given = DataOptions(file=rows)
    assert given.load_task_or_sample(seed=1) == given.load_task(seed=1)


def test_an_encoder_is_loaded_from_its_folder(tmp_path):
    from tests.tiny import save_tiny

    encoder = EncoderOptions(model=str(save_tiny(tmp_path / "tiny"))).load(torch.device("cpu"))
    assert encoder.depth == 4


def test_the_machine_has_the_threads_that_are_asked_for():
    before = torch.get_num_threads()
    try:
        assert MachineOptions(threads=3, device="cpu").use() == torch.device("cpu")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_trials_run_in_this_process_unless_another_place_is_given():
    cpu = torch.device("cpu")
    assert ComputeOptions().compute(cpu) == Compute()
    assert ComputeOptions(workers=3).compute(cpu) == Compute(workers=3)
    assert ComputeOptions(on="ray", cpus_per_trial=2).compute(cpu) == Compute(on="ray", cpus_per_trial=2)


def test_places_that_exclude_each_other_are_refused():
    with pytest.raises(OptionError, match="`workers`: are processes of this machine"):
        ComputeOptions(on="ray", workers=2).compute(torch.device("cpu"))
    with pytest.raises(OptionError, match="`cpus_per_trial` and `gpus_per_trial`: are for trials on Ray"):
        ComputeOptions(cpus_per_trial=2).compute(torch.device("cpu"))


@pytest.mark.parametrize("name", ["measure", "plan", "tune", "run", "evaluate"])
def test_commands_that_read_labelled_rows_have_the_same_flags_for_them(name):
    flags = flags_of(name)
    shared = [field.replace("_", "-") for field in DataOptions.__dataclass_fields__ if field != "file"]
    assert {f"--{field}" for field in shared} <= set(flags)
    assert {flag: flags[flag] for flag in ("--text", "--test")} == {
        "--text": "Column with the text.",
        "--test": "File with test rows.",
    }
