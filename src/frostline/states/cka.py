"""Linear CKA: the similarity of two sets of states on the same texts, up to rotation and scale.

With centred states X and Y, HSIC is |X'Y|^2 up to a factor, and CKA(X, Y) = HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y)).
The biased form, as printed in Phang et al. 2021, approaches 1 if texts are few for the width. The unbiased one corrects
for the similarity of each text with itself: with a_i = |x_i|^2 and b_i = |y_i|^2 of centred states,

    HSIC = (|X'Y|^2 - n/(n-2) sum a_i b_i + sum a_i sum b_i / ((n-1)(n-2))) / (n(n-3)),

which is Song's estimator in feature space. It needs no n x n matrix, but uses one if that is cheaper.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from frostline.errors import MeasureError

_STEPS = 8  # differences of up to this many steps of the number format are rounding errors
_GRAM_MEMORY = 1 << 30  # largest size in bytes of the n x n matrices of all layers


def cka_matrix(first: Tensor, second: Tensor | None = None, *, unbiased: bool = True) -> Tensor:
    """Return the CKA of each layer of one encoder with each layer of another, or of itself: (layers, layers), float64.

    NaN if a layer's states are constant up to rounding.

    Args:
        first: (layers, texts, width).
        second: states of the same texts in another encoder, whose layers and width may differ; `first` if None.
        unbiased: whether to correct for few texts.
    """
    x = _centred(first)
    y = x if second is None else _centred(second)
    count = x.shape[1]
    if y.shape[1] != count:
        raise MeasureError(f"similarity needs the same texts on both sides, but got {count} and {y.shape[1]}")
    if count < 4:
        raise MeasureError(f"similarity needs at least 4 texts, but got {count}")
    norms_x, norms_y = x.square().sum(-1).double(), y.square().sum(-1).double()
    shared = hsic(cross_norms(x, y), norms_x, norms_y, unbiased=unbiased)
    own_x = _self_hsic(x, norms_x, first, unbiased=unbiased)
    if second is None:
        shared = (shared + shared.T) / 2  # equal up to rounding
        own_y = own_x
    else:
        own_y = _self_hsic(y, norms_y, second, unbiased=unbiased)
    return shared / (own_x[:, None] * own_y[None, :]).sqrt()


def cross_norms(x: Tensor, y: Tensor) -> Tensor:
    """Return |X_a' Y_b|^2 for every pair of layers: (layers, layers), float64.

    Computed through products of features, or through one texts-by-texts matrix per layer if texts are few.
    """
    layers_x, count, width_x = x.shape
    layers_y, _, width_y = y.shape
    is_same = x is y
    pairs = layers_x * (layers_x + 1) / 2 if is_same else layers_x * layers_y
    by_features = pairs * width_x * width_y * count
    by_texts = count**2 * (layers_x * width_x + (0 if is_same else layers_y * width_y))
    fits = (layers_x + (0 if is_same else layers_y)) * count**2 * x.element_size() <= _GRAM_MEMORY
    if by_texts < by_features and fits:
        grams_x = (x @ x.transpose(1, 2)).flatten(1)
        grams_y = grams_x if is_same else (y @ y.transpose(1, 2)).flatten(1)
        return (grams_x @ grams_y.T).double()
    out = torch.empty(layers_x, layers_y, dtype=torch.float64, device=x.device)
    side_by_side = y.transpose(0, 1).flatten(1)  # one wide product per layer is faster than one for each pair
    for a in range(layers_x):
        begin = a if is_same else 0
        products = (x[a].T @ side_by_side[:, begin * width_y :]).view(width_x, -1, width_y)
        out[a, begin:] = products.square().sum((0, 2), dtype=torch.float64)
        if is_same:
            out[begin:, a] = out[a, begin:].clone()
    return out


def hsic(cross: Tensor, norms_x: Tensor, norms_y: Tensor, *, unbiased: bool) -> Tensor:
    """Return HSIC of each pair of layers, from |X'Y|^2 and the squared lengths of the centred states.

    Args:
        cross: (layers, layers).
        norms_x: (layers, texts).
        norms_y: (layers, texts).
        unbiased: whether to correct for few texts; False is the form of Phang et al. 2021.
    """
    count = norms_x.shape[-1]
    if not unbiased:
        return cross / (count - 1) ** 2
    apart = norms_x.sum(-1)[:, None] * norms_y.sum(-1)[None, :]
    return unbiased_hsic(cross, norms_x @ norms_y.T, apart, count)


def unbiased_hsic(cross: Tensor, together: Tensor, apart: Tensor, count: int) -> Tensor:
    """Return unbiased HSIC from |X'Y|^2, sum a_i b_i, and (sum a_i)(sum b_i) of `count` centred states."""
    corrected = cross - count / (count - 2) * together + apart / ((count - 1) * (count - 2))
    return corrected / (count * (count - 3))


def _self_hsic(centred: Tensor, norms: Tensor, states: Tensor, *, unbiased: bool) -> Tensor:
    """Return HSIC of each layer with itself, NaN if the layer is constant or too noisy for a positive estimate."""
    own = torch.stack(
        [
            hsic(cross_norms(layer[None], layer[None]), norm[None], norm[None], unbiased=unbiased)[0, 0]
            for layer, norm in zip(centred, norms, strict=True)
        ]
    )
    return torch.where(is_constant(centred, states) | (own <= 0), float("nan"), own)


def rounding(dtype: torch.dtype) -> float:
    """Return the relative size of rounding errors; states are computed in single precision."""
    return _STEPS * torch.finfo(dtype).eps


def is_constant(centred: Tensor, states: Tensor) -> Tensor:
    """Return (layers,): whether all texts have the same state up to rounding, in every dimension."""
    spread, size = _column_means(centred.square()), _column_means(states.square())
    return (spread <= rounding(states.dtype) ** 2 * size).all(2)[:, 0]


def undefined_where_constant(values: Tensor, states: Tensor) -> Tensor:
    """Return the values with NaN at layers where all texts have the same state up to rounding."""
    return values.masked_fill(is_constant(_centred(states), states), float("nan"))


def _centred(states: Tensor) -> Tensor:
    if states.dim() != 3:
        raise ValueError(f"states must be (layers, texts, width), but got {tuple(states.shape)}")
    near = states - _column_means(states)
    return near.sub_(_column_means(near))  # rounding leaves a residual mean for states far from the origin


def _column_means(states: Tensor) -> Tensor:
    """Return (layers, 1, width), by a matrix product, which is ten times faster than a sum in double precision."""
    count = states.shape[1]
    return states.new_full((len(states), 1, count), 1 / count) @ states


def hsic_leaving_out(first: Tensor, second: Tensor, blocks: Tensor | None) -> Tensor:
    """Return unbiased HSIC of two layers on all texts and without each block of texts: (1 + blocks,), float64.

    The products of features are formed block by block, so that leaving out every block costs little more than one pass.

    Args:
        first: (texts, width).
        second: (texts, width of the other).
        blocks: (texts,), the block of each text from 0; None leaves out nothing.
    """
    fewest = len(first) - (0 if blocks is None else int(torch.bincount(blocks).max()))
    if fewest < 4:
        raise MeasureError(f"similarity needs at least 4 texts in every resample, but got {fewest} of {len(first)}")
    x, y = _centred(first[None])[0], _centred(second[None])[0]
    of_block = torch.zeros(len(x), 0) if blocks is None else torch.nn.functional.one_hot(blocks).double()
    left_out = torch.cat([torch.zeros(len(x), 1, dtype=torch.float64), of_block], dim=1)  # (texts, 1 + blocks)
    products = [(x[rows > 0].T @ y[rows > 0]).double() for rows in left_out.T[1:]]
    whole = sum(products[1:], products[0]) if products else (x.T @ y).double()
    crosses = [whole, *(whole - product for product in products)]
    kept = 1 - left_out
    counts = kept.sum(0)
    steps_x, steps_y = ((kept.T.to(side.dtype) @ side).double() / counts[:, None] for side in (x, y))
    lengths_x, lengths_y = _lengths_around(x, steps_x), _lengths_around(y, steps_y)
    out = []
    for cross, step_x, step_y, n, a, b, keep in zip(
        crosses, steps_x, steps_y, counts, lengths_x.T, lengths_y.T, kept.T, strict=True
    ):
        moved = n * step_x.square().sum() * step_y.square().sum() - 2 * (step_x @ cross @ step_y)
        norm = cross.square().sum() + n * moved
        out.append(unbiased_hsic(norm, (a * b * keep).sum(), (a * keep).sum() * (b * keep).sum(), int(n)))
    return torch.stack(out)


def _lengths_around(states: Tensor, points: Tensor) -> Tensor:
    """Return |x_i - p_j|^2 for every text and point: (texts, points), float64."""
    return (
        states.square().sum(1, dtype=torch.float64)[:, None]
        - 2 * (states @ points.T.to(states.dtype)).double()
        + points.square().sum(1)[None, :]
    )


def own_hsic_leaving_out(states: Tensor, blocks: Tensor | None) -> Tensor:
    """Return HSIC of each layer with itself: (1 + blocks, layers); NaN if it is constant or too noisy to be positive.

    Args:
        states: (layers, texts, width).
        blocks: (texts,), the block of each text from 0; None leaves out nothing.
    """
    own = torch.stack([hsic_leaving_out(layer, layer, blocks) for layer in states], dim=1)
    constant = torch.cat([is_constant(_centred(layer[None]), layer[None]) for layer in states])
    return torch.where(constant | (own <= 0), float("nan"), own)


def cka_leaving_out(states: Tensor, own: Tensor, other: Tensor, blocks: Tensor | None) -> Tensor:
    """Return unbiased CKA of each layer with one other set of columns, as above: (1 + blocks, layers), float64.

    Args:
        states: (layers, texts, width).
        own: the result of `own_hsic_leaving_out` for them.
        other: (texts, columns).
        blocks: (texts,), the block of each text from 0; None leaves out nothing.
    """
    other = other.to(states.dtype)
    together = torch.stack([hsic_leaving_out(layer, other, blocks) for layer in states], dim=1)
    return together / (own * own_hsic_leaving_out(other[None], blocks)).sqrt()


def cka_between_neighbours(states: Tensor, own: Tensor, blocks: Tensor | None) -> Tensor:
    """Return unbiased CKA of each layer with the one below it: (1 + blocks, layers - 1), float64."""
    together = torch.stack([hsic_leaving_out(below, above, blocks) for below, above in pairwise(states)], dim=1)
    return together / (own[:, :-1] * own[:, 1:]).sqrt()
