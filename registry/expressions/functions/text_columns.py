"""Columns of numbers made of texts, and of texts made of numbers: usual values with NumPy, others one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvformat.registry.contract.types import STRING, FlinkType
from kvformat.registry.expressions.bound import NULL, BindError, Bound
from kvformat.registry.expressions.java_times.fixed_layouts import FixedTexts, Layout, written
from kvformat.registry.expressions.rows import RowError, Rows
from kvformat.registry.expressions.tree import Call
from kvformat.registry.expressions.vectors import DTYPES, Bools, Numbers, Vector

FromTexts = Callable[[FixedTexts, Rows], tuple[Numbers, Bools]]
"""Returns the numbers of texts, and for which texts they are right; the others are done one by one."""


def refuse_null(call: Call, arguments: Sequence[Bound]) -> None:
    """Refuse the literal NULL, as Flink does for functions of times."""
    if any(argument.type == NULL for argument in arguments):
        raise BindError(f"{call.name}: Flink needs a type for NULL, as in CAST(NULL AS STRING)", call.offset)


def numbers_of_texts(
    type_: FlinkType, text: Bound, usual: FromTexts | None, factory: Callable[[Rows], Callable[[str], int | None]]
) -> Bound:
    """Return a number for each text.

    usual: does whole columns; None if there is no such way.
    factory: returns for some rows the function of a single text, which raises `RowError` or returns None for NULL.
    """

    def evaluate(rows: Rows) -> Vector:
        vector = text.evaluate(rows)
        valid = vector.valid().copy()
        numbers, known = np.zeros(rows.length, DTYPES[type_.root]), np.zeros(rows.length, np.bool_)
        array = vector.array()
        if usual is not None:
            numbers, known = usual(FixedTexts.of(array), rows)
            numbers = numbers.astype(DTYPES[type_.root])
        rest = np.flatnonzero(valid & ~known)
        if len(rest):
            _add_single(rows, rest, vector.take(rest).values(), factory(rows), numbers, valid)
        return Vector.of_numbers(type_, numbers, valid)

    return Bound(type_, evaluate)


def _add_single(
    rows: Rows,
    indexes: Numbers,
    texts: Sequence[str],
    function: Callable[[str], int | None],
    numbers: Numbers,
    valid: Bools,
) -> None:
    for index, text in zip(indexes.tolist(), texts, strict=True):
        try:
            value = function(text)
        except RowError as error:
            rows.fail(index, str(error))
            value = None
        if value is None:
            valid[index] = False
        else:
            numbers[index] = value


def texts_of_numbers(
    rows: Rows,
    numbers: Numbers,
    valid: Bools,
    function: Callable[[int], str | None],
    *,
    layout: Layout | None = None,
    usual: Bools | None = None,
    locals_: Numbers | None = None,
) -> Vector:
    """Return a text for each number.

    function: returns the text of a single number; it raises `RowError`.
    layout: that of `usual` numbers, whose local times are `locals_`.
    """
    if layout is not None and usual is not None and locals_ is not None:
        rest = valid & ~usual
        array = written(layout, locals_, valid & usual)
        if not rest.any():
            return Vector.of_array(STRING, array)
        texts: list[Any] = array.to_pylist()
    else:
        rest, texts = valid, [None] * len(numbers)
    indexes = np.flatnonzero(rest)
    distinct, places = np.unique(numbers[indexes], return_inverse=True)
    answers = [_answer(function, number) for number in distinct.tolist()]
    for index, place in zip(indexes.tolist(), places.tolist(), strict=True):
        answer = answers[place]
        if isinstance(answer, RowError):
            rows.fail(index, str(answer))
        else:
            texts[index] = answer
    return Vector.of_values(STRING, texts)


def _answer(function: Callable[[int], str | None], number: int) -> str | RowError | None:
    try:
        return function(number)
    except RowError as error:
        return error
