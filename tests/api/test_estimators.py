"""The scikit-learn estimators do what scikit-learn expects of one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from tests.tiny import save_tiny

from frostline import FrostlineClassifier, FrostlineRegressor, predict
from frostline.errors import DataError, OptionError

COLD, WARM = ["ice", "snow", "frost", "sleet"], ["sun", "heat", "noon", "July"]
TEXTS = [f"{(COLD if row % 2 else WARM)[row // 2 % 4]} {row}" for row in range(40)]
LABELS = ["cold" if row % 2 else "warm" for row in range(40)]
FAST = {"plan": "1,2,2", "epochs": 1, "learning_rate": 5e-3, "batch": 8, "cache": False, "threads": 1}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("base")))


@pytest.fixture(scope="module")
def fitted(base):
    return FrostlineClassifier(base, **{**FAST, "epochs": 12, "learning_rate": 1e-2}).fit(TEXTS, LABELS)


def test_it_learns_and_predicts_with_the_labels_as_they_were(fitted):
    assert fitted.classes_.tolist() == ["cold", "warm"]
    assert set(fitted.predict(TEXTS)) <= {"cold", "warm"}
    assert fitted.score(TEXTS, LABELS) > 0.8


def test_probabilities_add_up_and_agree_with_the_predictions(fitted):
    shares = fitted.predict_proba(TEXTS)
    assert shares.shape == (40, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (fitted.classes_[shares.argmax(axis=1)] == fitted.predict(TEXTS)).all()


@pytest.mark.parametrize("hold", [np.array, pd.Series, tuple, lambda texts: np.array(texts, dtype=object)[:, None]])
def test_texts_may_come_in_arrays_and_series(fitted, hold):
    assert (fitted.predict(hold(TEXTS[:4])) == fitted.predict(TEXTS[:4])).all()


def test_settings_are_kept_as_given_and_cloned(base):
    model = FrostlineClassifier(base, plan="top-k:k=1", validation_fraction=0.3, seed=7)
    assert model.get_params()["plan"] == "top-k:k=1"
    other = clone(model).set_params(seed=8)
    assert (other.validation_fraction, other.seed, model.seed) == (0.3, 8, 7)


def test_whole_numbers_as_labels_come_back_as_numbers(base):
    model = FrostlineClassifier(base, **FAST).fit(np.array(TEXTS), np.arange(40) % 2 * 5)
    assert model.classes_.tolist() == [0, 5]
    assert model.predict(TEXTS[:3]).dtype.kind == "i"


def test_pairs_are_read_as_pairs(base):
    pairs = [(text, other) for text, other in zip(TEXTS, TEXTS[::-1], strict=True)]
    model = FrostlineClassifier(base, **FAST).fit(pairs, LABELS)
    assert model.tuned_.task.takes_pairs
    one, other = model.predict_proba(pairs[:5]), model.predict_proba(pd.DataFrame(pairs[:5]))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, model.predict_proba(np.array(pairs[:5])))


def test_it_works_in_a_cross_validation_and_in_a_grid_search(base):
    model = FrostlineClassifier(base, **{**FAST, "batch": 16})
    assert len(cross_val_score(model, TEXTS, LABELS, cv=2)) == 2
    search = GridSearchCV(model, {"method": [None, "norm-and-bias"]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["method"] in (None, "norm-and-bias")
    assert len(search.predict(TEXTS[:2])) == 2


def test_the_regressor_gives_numbers(base):
    values = np.linspace(0, 3, 40)
    model = FrostlineRegressor(base, **FAST, validation_fraction=0).fit(TEXTS, values)
    assert model.predict(TEXTS[:3]).shape == (3,)
    assert np.isfinite(model.score(TEXTS, values))
    assert model.tuned_.task.validation is None


def test_it_is_saved_as_any_tuned_model(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    assert predict(tmp_path / "run", TEXTS).labels == fitted.predict(TEXTS).tolist()
    with pytest.raises(OptionError, match="pass `overwrite=True`"):
        fitted.save(tmp_path / "run")
    fitted.save(tmp_path / "run", overwrite=True)


def test_the_same_seed_gives_the_same_model(base):
    one, two = (FrostlineClassifier(base, **FAST).fit(TEXTS, LABELS).predict_proba(TEXTS) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_mistakes_are_said(base):
    model = FrostlineClassifier(base, **FAST)
    with pytest.raises(NotFittedError, match="call fit first"):
        model.predict(TEXTS)
    with pytest.raises(DataError, match="X has 40 texts, but y has 3 labels"):
        model.fit(TEXTS, ["a", "b", "a"])
    with pytest.raises(DataError, match="only one class"):
        model.fit(TEXTS, ["a"] * 40)
    with pytest.raises(DataError, match="is a single text; give a list"):
        model.fit("ice", ["a", "b"])
    with pytest.raises(OptionError, match="validation_fraction 1: must be"):
        clone(model).set_params(validation_fraction=1).fit(TEXTS, LABELS)
    with pytest.raises(OptionError, match="plan \\(1, 9, 9\\)"):
        clone(model).set_params(plan="1,9,9").fit(TEXTS, LABELS)
    with pytest.raises(DataError, match="not finite"):
        FrostlineRegressor(base).fit(TEXTS, [float("nan")] * 40)
