"""Functions of ARRAY, MAP and ROW.

    ARRAY[a, b]   MAP['k', v]   ROW(a, b)
    ARRAY_DISTINCT(ARRAY[1, 1, NULL])     [1, NULL]
    ARRAY_SORT(a, FALSE)                  the greatest first, NULL last
    MAP_UNION(m, MAP['k', 1])             entries of later maps count, and stand first

An element that is given to a function, such as in ARRAY_APPEND, is cast to the type of the elements if Flink casts it
implicitly. Arrays and maps of several types are cast to a common one; there Flink fails or invents a value for NULL,
and so the row fails here.
Elements are compared with `=`: NaN equals nothing. Of ARRAY, MAP and ROW the comparison of NULL inside depends on
Flink's memory layout, so that such rows fail.

Rules: Flink's classes `Array*Function` and `Map*Function`, `ScalarOperatorGens`, `LogicalTypeCasts`,
`LogicalTypeMerging`; Calcite's `leastRestrictive` for ARRAY[...] and MAP[...].
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from kvformat.registry.contract.types import STRING, FlinkField, FlinkType, nullable
from kvformat.registry.expressions.bound import (
    BINARIES,
    BOOLEAN,
    FLOATS,
    INT,
    INTEGERS,
    NULL,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    BindError,
    Bound,
    by_value,
    constant,
    may_be_null,
    shown,
)
from kvformat.registry.expressions.casts import bind_cast, same_values
from kvformat.registry.expressions.functions.collection_types import (
    NESTED,
    Equal,
    array_of,
    as_element,
    check_root,
    element_of,
    equality,
    map_of,
    with_one_type,
)
from kvformat.registry.expressions.functions.signatures import ANY_COUNT, Function, by_values, checked, same_type
from kvformat.registry.expressions.rows import RowError, check_length
from kvformat.registry.expressions.tree import Call, Literal, Name, Tree
from kvformat.registry.expressions.types import common_type

_ORDERED: Final = (*NUMBERS, *TIMESTAMPS, "DATE", "TIME", *TEXTS, *BINARIES)
_MOST_UNORDERED: Final = 32
"""Elements up to which Java sorts by insertion, so that its order of NaN can be computed."""


# --- constructors --------------------------------------------------------------------------------------------


def _common(call: Call, values: Sequence[Bound]) -> list[Bound]:
    """Cast values to the type that Calcite finds for them."""
    common = common_type([value.type for value in values])
    if {value.type.root for value in values} >= set(TIMESTAMPS):
        common = None  # Calcite takes the type of the last, but Flink's functions another
    known = [value.type for value in values if value.type != NULL]
    if common and common.root == "ARRAY" and not all(same_values(type_, common) for type_ in known):
        common = None  # Flink fails in its own checks
    if common is None or common == NULL:
        types = ", ".join(shown(value.type) for value in values)
        raise BindError(f"{call.name}: its values have no common type: {types}; cast them to one", call.offset)
    return [bind_cast(value, common, offset=call.offset) for value in values]


def _bind_array(call: Call, arguments: Sequence[Bound]) -> Bound:
    values = _common(call, arguments)
    return by_value(array_of(values[0].type), lambda *items: list(items), values, nulls=True)


def _bind_map(call: Call, arguments: Sequence[Bound]) -> Bound:
    if len(arguments) % 2:
        raise BindError(f"{call.name}: each key needs a value", call.offset)
    if any(map(may_be_null, arguments[::2])):
        raise _null_key(call)
    keys = _common(call, arguments[::2])
    if all(value.type == NULL for value in arguments[1::2]):
        raise BindError(f"{call.name}: every value is NULL; cast one of them, as in CAST(NULL AS INT)", call.offset)
    values = _common(call, arguments[1::2])
    chosen = _last_of_equal_keys(call.arguments[::2], arguments[::2], keys[0].type)
    ordered = [bound for i, last in chosen.items() for bound in (keys[i], values[last])]

    def made(*items: Any) -> list[tuple[Any, Any]]:
        return _pairs(call.name, items[::2], items[1::2])

    return by_value(map_of(keys[0].type, values[0].type), made, ordered, nulls=True)


def _null_key(call: Call) -> BindError:
    """Return the error for keys that may be NULL: Flink allows that, but neither Arrow nor Spark can hold it."""
    return BindError(
        f"{call.name}: a key may be NULL, which Spark does not allow in a MAP; use literals, or COALESCE(key, 'none')",
        call.offset,
    )


def _pairs(name: str, keys: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return a map, whose keys must not be NULL, because Arrow would end the process."""
    if None in keys:
        raise RowError(f"{name}: a MAP with the key NULL is not supported")
    return list(zip(keys, values, strict=True))


def _last_of_equal_keys(trees: Sequence[Tree], keys: Sequence[Bound], common: FlinkType) -> dict[int, int]:
    """Return for each key the index of its last value. Flink takes the same column or literal for one key."""
    first: dict[Any, int] = {}
    last: dict[int, int] = {}
    for i, (tree, key) in enumerate(zip(trees, keys, strict=True)):
        identity: Any = i
        if isinstance(tree, Name) and same_values(key.type, common) and key.type.root == common.root:
            identity = ("column", tree.name)
        elif isinstance(tree, Literal) and (key.type.root in TEXTS or key.type == common):
            identity = ("literal", tree.value)
        last[first.setdefault(identity, i)] = i
    return last


def _bind_row(call: Call, arguments: Sequence[Bound]) -> Bound:
    if any(argument.type == NULL for argument in arguments):
        raise BindError(f"{call.name}: Flink does not take NULL here; cast it, as in CAST(NULL AS INT)", call.offset)
    fields = tuple(FlinkField(f"EXPR${i}", nullable(argument.type)) for i, argument in enumerate(arguments))
    return by_value(FlinkType("ROW", fields=fields), lambda *items: items, arguments, nulls=True)


def _distinct(equal: Equal, *arrays: list[Any]) -> list[Any]:
    """Return the elements of arrays without those that are equal to one before."""
    distinct: list[Any] = []
    if equal is operator.eq:
        return _distinct_plain(arrays)
    for array in arrays:
        for item in array:
            if not any(seen is None if item is None else seen is not None and equal(item, seen) for seen in distinct):
                distinct.append(item)
    return distinct


def _distinct_plain(arrays: Sequence[list[Any]]) -> list[Any]:
    """Do so with a set, in linear time. NaN equals nothing, 0.0 equals -0.0."""
    seen: set[Any] = set()
    distinct: list[Any] = []
    for array in arrays:
        for item in array:
            if item not in seen or item != item:
                seen.add(item)
                distinct.append(item)
    return distinct


def _without(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind ARRAY_EXCEPT."""
    key = _hash_key(call, arguments)

    def compute(items: list[Any], excluded: list[Any]) -> list[Any]:
        seen = {key(item) for item in excluded}
        kept: list[Any] = []
        for item in items:
            of = key(item)
            if of not in seen or of != of:
                kept.append(item)
                seen.add(of)
        return kept

    return _of_two(call, arguments, compute)


def _intersection(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind ARRAY_INTERSECT."""
    key = _hash_key(call, arguments)

    def compute(items: list[Any], others: list[Any]) -> list[Any]:
        wanted = {key(item) for item in others}
        shared: dict[Any, Any] = {}
        for item in items:
            of = key(item)
            if of in wanted and of == of:
                shared.setdefault(of, item)
        return list(shared.values())

    return _of_two(call, arguments, compute)


def _hash_key(call: Call, arguments: Sequence[Bound]) -> Callable[[Any], Any]:
    """Return what equal elements share: their value, and of 0.0 the sign too, which Flink's hash tells apart."""
    check_root(call, arguments, "ARRAY")
    element = element_of(with_one_type(call, arguments)[0].type)
    if element.root in NESTED:
        equal = equality(call, element)

        def checked(item: Any) -> Any:
            if item is None:
                return None
            equal(item, item)
            return _frozen(item)

        return checked
    if element.root in FLOATS:
        return lambda item: (0.0, str(item)) if item == 0 else item
    return lambda item: item


def _frozen(item: Any) -> Any:
    if type(item) is list:
        return ("array", *map(_frozen, item))
    return tuple(map(_frozen, item)) if type(item) is tuple else item


def _of_two(call: Call, arguments: Sequence[Bound], compute: Callable[..., Any]) -> Bound:
    merged = with_one_type(call, arguments, converts=False)
    return by_value(merged[0].type, compute, merged)


def _union(call: Call, arguments: Sequence[Bound]) -> Bound:
    check_root(call, arguments, "ARRAY")
    merged = with_one_type(call, arguments, converts=False)
    equal = equality(call, element_of(merged[0].type))
    return by_value(merged[0].type, lambda left, right: _distinct(equal, left, right), merged)


def _bind_distinct(call: Call, arguments: Sequence[Bound]) -> Bound:
    check_root(call, arguments, "ARRAY")
    equal = equality(call, element_of(arguments[0].type))
    return by_value(arguments[0].type, lambda array: _distinct(equal, array), arguments)


# --- elements ------------------------------------------------------------------------------------------------


def _contains(call: Call, arguments: Sequence[Bound]) -> Bound:
    array, value, equal = _with_element(call, arguments)

    def compute(items: list[Any] | None, sought: Any) -> bool | None:
        if items is None:
            return None
        if sought is None:
            return None in items
        return any(item is not None and equal(item, sought) for item in items)

    return by_value(BOOLEAN, compute, [array, value], nulls=True)


def _position(call: Call, arguments: Sequence[Bound]) -> Bound:
    array, value, equal = _with_element(call, arguments)

    def compute(items: list[Any], sought: Any) -> int:
        positions = (i for i, item in enumerate(items, 1) if item is not None and equal(item, sought))
        return next(positions, 0)

    return by_value(INT, compute, [array, value])


def _remove(call: Call, arguments: Sequence[Bound]) -> Bound:
    array, value, equal = _with_element(call, arguments)

    def compute(items: list[Any] | None, unwanted: Any) -> list[Any] | None:
        if items is None:
            return None
        if unwanted is None:
            return [item for item in items if item is not None]
        return [item for item in items if item is None or not equal(item, unwanted)]

    return by_value(array.type, compute, [array, value], nulls=True)


def _with_element(call: Call, arguments: Sequence[Bound]) -> tuple[Bound, Bound, Equal]:
    array, value = arguments
    check_root(call, [array], "ARRAY")
    return array, as_element(call, array, value), equality(call, element_of(array.type))


def _added(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind ARRAY_APPEND and ARRAY_PREPEND."""
    array, value = arguments
    check_root(call, [array], "ARRAY")
    first = call.name == "ARRAY_PREPEND"

    def compute(items: list[Any] | None, item: Any) -> list[Any] | None:
        if items is None:
            return None
        return [item, *items] if first else [*items, item]

    return by_value(array.type, compute, [array, as_element(call, array, value)], nulls=True)


def _concat(call: Call, arguments: Sequence[Bound]) -> Bound:
    check_root(call, arguments, "ARRAY")
    merged = with_one_type(call, arguments)
    return by_value(merged[0].type, lambda *arrays: [item for array in arrays for item in array], merged)


def _extreme(call: Call, arguments: Sequence[Bound]) -> Bound:
    """Bind ARRAY_MAX and ARRAY_MIN: with NaN the result depends on the order of the elements, as in Flink."""
    _check_ordered(call, arguments)
    better = operator.gt if call.name == "ARRAY_MAX" else operator.lt
    is_text = element_of(arguments[0].type).root in TEXTS

    def compute(items: list[Any]) -> Any:
        best = None
        for item in items:
            if item is not None and (best is None or better(item, best)):
                best = item
        if is_text and best is not None and not best.isascii():
            ordered = sorted((item for item in items if item is not None), key=_utf16, reverse=better is operator.gt)
            _check_order(call, [best], ordered[:1])
        return best

    return by_value(element_of(arguments[0].type), compute, arguments)


def _check_ordered(call: Call, arguments: Sequence[Bound]) -> None:
    check_root(call, arguments[:1], "ARRAY")
    element = element_of(arguments[0].type)
    if element.root not in _ORDERED:
        raise BindError(f"{call.name}: Flink has no order of {shown(element)}", call.offset)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _check_order(call: Call, by_utf8: list[str], by_utf16: list[str]) -> None:
    """Fail a row if the orders of UTF-8 and UTF-16 differ: Flink compares by either, as texts are held."""
    if by_utf8 != by_utf16:
        raise RowError(f"{call.name}: the order of characters after U+E000 is not defined in Flink")


def _only(items: list[Any]) -> Any:
    """Return the only element, as ELEMENT."""
    if len(items) > 1:
        raise RowError("ELEMENT: the ARRAY has more than one element")
    return items[0] if items else None


def _slice(items: list[Any], start: int, end: int | None = None) -> list[Any]:
    """Return the elements from one place to another, from 1 or, if negative, from the end."""
    size = len(items)
    end = size if end is None else end
    first = max(1, start + size + 1 if start < 0 else start)
    last = end + size + 1 if end < 0 else end
    last = 1 if last == 0 else min(last, size)
    return items[first - 1 : last] if size and last >= first else []


def _join(items: list[str | None], separator: str, *for_null: str) -> str:
    if for_null:
        items = [for_null[0] if item is None else item for item in items]
    texts = [item for item in items if item is not None]
    check_length(sum(map(len, texts)) + len(separator) * len(texts), separator, *texts)
    return separator.join(texts)


def _bind_join(call: Call, arguments: Sequence[Bound]) -> Bound:
    array, *rest = arguments
    check_root(call, [array], "ARRAY")
    if element_of(array.type).root not in TEXTS:
        raise BindError(f"{call.name}: the elements must be texts, not {shown(element_of(array.type))}", call.offset)
    texts = _of_type(call, rest, TEXTS, STRING, "a separator must be a text")
    return by_value(STRING, _join, [array, *texts])


def _of_type(call: Call, arguments: Sequence[Bound], roots: Sequence[str], null: FlinkType, rule: str) -> list[Bound]:
    """Check the types of arguments, of which NULL gets the type `null`."""
    for argument in arguments:
        if argument.type.root not in (*roots, NULL.root):
            raise BindError(f"{call.name}: {rule}, not {shown(argument.type)}", call.offset)
    return [constant(null, None) if argument.type == NULL else argument for argument in arguments]


def _bind_slice(call: Call, arguments: Sequence[Bound]) -> Bound:
    array, *places = arguments
    check_root(call, [array], "ARRAY")
    indexes = _of_type(call, places, INTEGERS[:3], INT, "a place must be an INT")
    return by_value(array.type, _slice, [array, *indexes])


# --- sorting -------------------------------------------------------------------------------------------------


def _bind_sort(call: Call, arguments: Sequence[Bound]) -> Bound:
    _check_ordered(call, arguments)
    array, *flags = arguments
    order = _of_type(call, flags, (BOOLEAN.root,), BOOLEAN, "the order must be BOOLEAN")
    root = element_of(array.type).root
    is_float, is_text = root in FLOATS, root in TEXTS

    def compute(items: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
        values = [item for item in items if item is not None]
        nulls = [None] * (len(items) - len(values))
        first = ascending if nulls_first is None else nulls_first
        if is_float and _is_unordered(values):
            if len(items) >= _MOST_UNORDERED:
                raise RowError("ARRAY_SORT: the order of many numbers with NaN or two zeros can't be computed")
            return _sorted_by_insertion(items, ascending, first)
        values.sort(reverse=not ascending)
        if is_text and not all(map(str.isascii, values)):
            _check_order(call, values, sorted(values, key=_utf16, reverse=not ascending))
        return nulls + values if first else values + nulls

    return by_value(array.type, compute, [array, *order])


def _is_unordered(values: list[float]) -> bool:
    """Return whether numbers have NaN, or zeros that may have two signs."""
    return any(value != value for value in values) or values.count(0.0) > 1


def _sorted_by_insertion(items: list[Any], ascending: bool, nulls_first: bool) -> list[Any]:
    """Sort as `java.util.TimSort` does few elements, with Flink's order, in which equal elements are in disorder."""

    def before(a: Any, b: Any) -> bool:
        """Return whether Flink's comparator is negative."""
        if a is None or b is None:
            return (a is not None or b is not None) and (a is None) == nulls_first
        return bool((a > b) != ascending)

    ordered = list(items)
    if len(ordered) < 2:
        return ordered
    run = 2
    if before(ordered[1], ordered[0]):
        while run < len(ordered) and before(ordered[run], ordered[run - 1]):
            run += 1
        ordered[:run] = ordered[:run][::-1]
    else:
        while run < len(ordered) and not before(ordered[run], ordered[run - 1]):
            run += 1
    for i in range(run, len(ordered)):
        pivot, low, high = ordered[i], 0, i
        while low < high:
            middle = (low + high) >> 1
            if before(pivot, ordered[middle]):
                high = middle
            else:
                low = middle + 1
        ordered.insert(low, ordered.pop(i))
    return ordered


# --- maps ----------------------------------------------------------------------------------------------------


def _entries(types: Sequence[FlinkType]) -> FlinkType:
    key, value = types[0].fields
    return array_of(FlinkType("ROW", fields=(FlinkField("key", key.type), FlinkField("value", value.type))))


def _bind_map_from_arrays(call: Call, arguments: Sequence[Bound]) -> Bound:
    keys, values = checked(call, arguments, "ARRAY ARRAY")
    if not _has_no_null(call.arguments[0]):
        raise _null_key(call)
    return by_value(map_of(element_of(keys.type), element_of(values.type)), _map_from_arrays, [keys, values])


def _has_no_null(array: Tree) -> bool:
    """Return whether an ARRAY never has NULL in it."""
    if not isinstance(array, Call):
        return False
    items = array.arguments
    return array.name in ("MAP_KEYS", "SPLIT") or (
        array.name == "ARRAY[]" and all(isinstance(item, Literal) and item.value is not None for item in items)
    )


def _map_from_arrays(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    if len(keys) != len(values):
        raise RowError(f"MAP_FROM_ARRAYS: {len(keys)} keys, but {len(values)} values")
    return _pairs("MAP_FROM_ARRAYS", keys, values)


def _bind_map_union(call: Call, arguments: Sequence[Bound]) -> Bound:
    check_root(call, arguments, "MAP")
    merged = with_one_type(call, arguments)
    equal = equality(call, element_of(merged[0].type))

    def compute(*maps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if any(key is None for map_ in maps for key, _ in map_):  # after a cast to a smaller type
            raise RowError("MAP_UNION: a MAP with the key NULL is not supported")
        union = maps[0]
        for later in maps[1:]:
            if later:
                union = [*later, *_without_keys(union, later, equal)]
        return union

    return by_value(merged[0].type, compute, merged)


def _without_keys(pairs: list[tuple[Any, Any]], others: list[tuple[Any, Any]], equal: Equal) -> list[tuple[Any, Any]]:
    """Return the pairs of a map whose keys another does not have."""
    if equal is operator.eq:
        keys = {key for key, _ in others if key == key}
        return [pair for pair in pairs if pair[0] not in keys]
    return [pair for pair in pairs if not any(equal(pair[0], key) for key, _ in others)]


def _bind_cardinality(call: Call, arguments: Sequence[Bound]) -> Bound:
    check_root(call, arguments, "ARRAY", "MAP")
    return by_value(INT, len, arguments)


FUNCTIONS: dict[str, Function] = {
    "ARRAY[]": Function(_bind_array, 1, ANY_COUNT),
    "MAP[]": Function(_bind_map, 2, ANY_COUNT),
    "ROW": Function(_bind_row, 1, ANY_COUNT),
    "CARDINALITY": Function(_bind_cardinality, 1, 1),
    "ELEMENT": by_values(_only, "ARRAY", lambda types: element_of(types[0])),
    "ARRAY_APPEND": Function(_added, 2, 2),
    "ARRAY_CONCAT": Function(_concat, 1, ANY_COUNT),
    "ARRAY_CONTAINS": Function(_contains, 2, 2),
    "ARRAY_DISTINCT": Function(_bind_distinct, 1, 1),
    "ARRAY_EXCEPT": Function(_without, 2, 2),
    "ARRAY_INTERSECT": Function(_intersection, 2, 2),
    "ARRAY_JOIN": Function(_bind_join, 2, 3),
    "ARRAY_MAX": Function(_extreme, 1, 1),
    "ARRAY_MIN": Function(_extreme, 1, 1),
    "ARRAY_POSITION": Function(_position, 2, 2),
    "ARRAY_PREPEND": Function(_added, 2, 2),
    "ARRAY_REMOVE": Function(_remove, 2, 2),
    "ARRAY_REVERSE": by_values(lambda items: items[::-1], "ARRAY", same_type),
    "ARRAY_SLICE": Function(_bind_slice, 2, 3),
    "ARRAY_SORT": Function(_bind_sort, 1, 3),
    "ARRAY_UNION": Function(_union, 2, 2),
    "MAP_ENTRIES": by_values(lambda pairs: pairs, "MAP", _entries),
    "MAP_FROM_ARRAYS": Function(_bind_map_from_arrays, 2, 2),
    "MAP_KEYS": by_values(lambda pairs: [key for key, _ in pairs], "MAP", lambda types: array_of(element_of(types[0]))),
    "MAP_UNION": Function(_bind_map_union, 1, ANY_COUNT),
    "MAP_VALUES": by_values(
        lambda pairs: [value for _, value in pairs], "MAP", lambda types: array_of(types[0].fields[1].type)
    ),
}
