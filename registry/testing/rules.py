"""The table of the contract's rules. Tests, error messages and the docs are generated from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from kvformat.registry.contract.options import Direction

if TYPE_CHECKING:
    from kvformat.registry.testing.subject import Subject

Part = Literal["decode", "encode", "object", "spark"]


@dataclass(frozen=True)
class Rule:
    """A rule of the contract.

    name: the rule's name in tests, errors and the docs.
    part: the subject of the rule: 'decode', 'encode', the format as an 'object', or its Columns in 'spark'.
    needs: the directions that a format must have, else the rule does not apply to it.
    sentence: the rule itself.
    page: the page and section of the docs that explain it.
    check: raises `RuleBroken` if the format breaks the rule, `NotApplicable` if the rule does not apply to it.
    """

    name: str
    part: Part
    needs: tuple[Direction, ...]
    sentence: str
    page: str
    check: Callable[..., None]


class RuleBroken(Exception):
    """The format breaks a rule. The text says for which sample and message, what was expected and what it got."""


class NotApplicable(Exception):
    """A rule does not apply to a format. The text says why."""


_PAGE: Final = "plugins.md#the-rules"
_NEEDS: Final[dict[Part, tuple[Direction, ...]]] = {
    "decode": ("decode",),
    "encode": ("encode",),
    "object": (),
    "spark": (),
}
RULES: dict[str, Rule] = {}
"""All rules by name."""

_Check = TypeVar("_Check", bound=Callable[..., None])


def rule(part: Part, *, page: str = _PAGE, needs: tuple[Direction, ...] | None = None) -> Callable[[_Check], _Check]:
    """Register a function that checks a `Subject` as a rule.

    The function's name becomes the rule's name, its docstring the rule's sentence. By default a rule of decoding needs
    a format that decodes, and a rule of encoding one that encodes.
    """

    def add(check: _Check) -> _Check:
        name, sentence = check.__name__, " ".join((check.__doc__ or "").split())
        assert name not in RULES, f"two rules have the name {name}"
        RULES[name] = Rule(
            name, part, _NEEDS.get(part, ()) if needs is None else needs, sentence, f"docs/{page}", check
        )
        return check

    return add


@dataclass(frozen=True)
class Outcome:
    """The result of checking one rule.

    compared: the number of comparisons.
    left_out: why the rule does not apply, or None.
    broken: the error message if the format breaks the rule, or None.
    """

    rule: Rule
    compared: int = 0
    left_out: str | None = None
    broken: str | None = None


def check_rule(rule: Rule, subject: Subject, *further: Any) -> Outcome:
    """Check one rule. `further` are the arguments that rules of Spark need after the subject."""
    from kvformat.registry.contract.errors import ContractError

    before = subject.compared
    try:
        for direction in rule.needs:
            subject.require(direction)
        rule.check(subject, *further)
    except NotApplicable as reason:
        return Outcome(rule, left_out=str(reason))
    except RuleBroken as breach:
        return Outcome(rule, broken=_sentence(rule, subject, str(breach)))
    except ContractError as error:
        shapes = RULES["encoded_shapes" if "encode_arrow" in str(error) else "shapes"]
        return Outcome(rule, broken=_sentence(shapes, subject, error.reason or str(error)))
    except Exception as error:
        text = f"{subject.context}: unexpected {type(error).__name__}: {error}"
        return Outcome(rule, broken=_sentence(rule, subject, text))
    if subject.compared == before:
        text = "The rule compared nothing, because no sample fits it. Declare more `samples`"
        return Outcome(rule, broken=_sentence(rule, subject, text))
    return Outcome(rule, subject.compared - before)


def _sentence(rule: Rule, subject: Subject, text: str) -> str:
    return f"format '{subject.identifier}' breaks the rule {rule.name}: {rule.sentence} {text}. See {rule.page}"
