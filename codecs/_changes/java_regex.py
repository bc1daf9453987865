r"""Regular expressions of Java (`java.util.regex.Pattern`, Java 17) as patterns of Python's `re`.

A pattern is read by Java's grammar and written anew, piece by piece, because the two differ where it does not show:

| in Java | written as |
| --- | --- |
| `\d \w \s`, `(?i)` | ASCII only, unless `(?U)`, `(?u)` |
| `.`, `^`, `$`, `\Z` | know `\r\n`, `\u0085`, `\u2028` and `\u2029` as ends of lines |
| `[a-z&&[^aeiou]]`, `[a[bc]]` | intersection as a lookahead, union as an alternative |
| `(?i)` in the middle | a flag of each piece behind it, until its group ends |
| `\Q...\E`, `\h`, `\R`, `\p{Lu}`, `\x{1F600}`, `a{2}{3}` | what they mean |

What is no pattern in Java is a `RegexError`; so is what Python can't do: lookbehind of changing length, names of
scripts and blocks, grapheme clusters (`\X`).
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from dataclasses import dataclass, replace


class RegexError(ValueError):
    """A text is no pattern; `str()` says why and where."""


@functools.lru_cache(maxsize=64)
def compile_java(text: str) -> re.Pattern[str]:
    """The pattern of a Java regular expression, to be used with `fullmatch`, Java's `matches()`."""
    translated = _Translator(_without_quotes(text)).whole()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as cause:
        raise RegexError(f"Python can't do this pattern ({cause})") from None


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags in force: (?i), (?m), (?s), (?x), (?d), (?u), (?U)."""

    i: bool = False
    m: bool = False
    s: bool = False
    x: bool = False
    d: bool = False
    u: bool = False
    U: bool = False


_LINE_ENDS = r"[\n\r\u0085\u2028\u2029]"
_HORIZONTAL = r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]"
_VERTICAL = r"[\n\x0b\f\r\x85\u2028\u2029]"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_POSIX = {
    "Lower": "[a-z]",
    "Upper": "[A-Z]",
    "ASCII": r"[\x00-\x7f]",
    "Alpha": "[A-Za-z]",
    "Digit": "[0-9]",
    "Alnum": "[A-Za-z0-9]",
    "Punct": r"[!-/:-@\[-`{-~]",
    "Graph": "[!-~]",
    "Print": "[ -~]",
    "Blank": r"[ \t]",
    "Cntrl": r"[\x00-\x1f\x7f]",
    "XDigit": "[0-9A-Fa-f]",
    "Space": r"[ \t\n\x0b\f\r]",
}
_CATEGORIES = {
    *("Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"),
    *("Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf"),
}
_BINARY = {
    "ALPHABETIC": ("L", "Nl"),
    "LETTER": ("L",),
    "LOWERCASE": ("Ll",),
    "UPPERCASE": ("Lu",),
    "TITLECASE": ("Lt",),
    "DIGIT": ("Nd",),
    "PUNCTUATION": ("P",),
    "CONTROL": ("Cc",),
    "ASSIGNED": ("L", "M", "N", "Z", "P", "S", "Cc", "Cf", "Co", "Cs"),
}


def _without_quotes(text: str) -> str:
    r"""The pattern with what stands between `\Q` and `\E` escaped."""
    found, at = [], 0
    while at < len(text):
        if text.startswith("\\Q", at):
            end = text.find("\\E", at + 2)
            quoted = text[at + 2 : end if end >= 0 else len(text)]
            found.append("".join(c if c.isascii() and c.isalnum() else f"\\{c}" for c in quoted))
            at = len(text) if end < 0 else end + 2
        else:
            step = 2 if text[at] == "\\" else 1
            found.append(text[at : at + step])
            at += step
    return "".join(found)


@functools.cache
def _category(*names: str) -> str:
    """The class of all characters whose general category begins with one of the names."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(names):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "[" + "".join(f"{_character(a)}-{_character(b)}" for a, b in ranges) + "]"


def _character(code: int) -> str:
    return f"\\U{code:08x}"


class _Translator:
    """One pass over a pattern; `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags = _Flags()
        self._groups, self._names = 0, set[str]()

    def whole(self) -> str:
        translated = self._alternatives()
        if self._at < len(self._text):
            raise self._error("unmatched closing ')'")
        return translated

    # --- reading ---------------------------------------------------------------------------------------

    def _error(self, reason: str) -> RegexError:
        return RegexError(f"{reason} at character {self._at + 1}")

    def _peek(self) -> str:
        """The next character, empty at the end; comments and blanks are passed over where (?x) is in force."""
        while self._flags.x and self._at < len(self._text):
            character = self._text[self._at]
            if character == "#":
                while self._at < len(self._text) and self._text[self._at] not in "\n\r\x85\u2028\u2029":
                    self._at += 1
            elif character in " \t\n\x0b\f\r":
                self._at += 1
            else:
                break
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._text[self._at : self._at + 1]
        self._at += 1
        return character

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _match(self, expression: str) -> re.Match[str] | None:
        found = re.compile(expression).match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    # --- structure -------------------------------------------------------------------------------------

    def _alternatives(self) -> str:
        """Alternatives up to a closing parenthesis or the end; flags set inside end with it."""
        outer = self._flags
        branches = [self._branch()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._branch())
        self._flags = outer
        return "|".join(branches)

    def _branch(self) -> str:
        pieces = []
        while self._peek() not in ("", "|", ")"):
            atom, repeats = self._atom()
            pieces.append(self._repeated(atom) if repeats else atom)
        return "".join(pieces)

    def _repeated(self, atom: str) -> str:
        """An atom with its quantifier."""
        sign = self._peek()
        if sign not in ("*", "+", "?", "{") or not sign:
            return atom
        if sign == "{":
            found = self._match(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
            if not found:
                raise self._error("illegal repetition")
            least, most = int(found[1]), int(found[3] or found[1]) if found[3] or not found[2] else None
            if least >= 2**31 or (most is not None and not least <= most < 2**31):
                raise self._error("illegal repetition range")
            quantifier = found[0]
        else:
            quantifier = self._next()
        after = self._peek()
        if after in ("?", "+") and after:
            quantifier += self._next()
        return f"(?:{atom}){quantifier}"

    def _atom(self) -> tuple[str, bool]:
        """The next piece, and whether a quantifier may follow it."""
        character = self._peek()
        if character in ("*", "+", "?"):
            raise self._error(f"dangling meta character '{character}'")
        if character == "{":
            return "", True  # in Java what `{2}` without anything before it repeats is empty
        if character == "(":
            return self._group()
        if character == "[":
            self._at += 1
            return self._class(), True
        if character == "\\":
            self._at += 1
            return self._escape(), True
        self._at += 1
        if character == ".":
            return self._dot(), True
        if character in ("^", "$"):
            return self._anchor(character), True
        return self._literal(character), True

    def _dot(self) -> str:
        if self._flags.s:
            return r"[\s\S]"
        return r"[^\n]" if self._flags.d else f"[^{_LINE_ENDS[1:]}"

    def _anchor(self, character: str) -> str:
        ends = r"[\n]" if self._flags.d else _LINE_ENDS
        between = "" if self._flags.d else r"(?!(?<=\r)\n)"
        if character == "^":
            return rf"(?:\A|(?<={ends}){between}(?!\Z))" if self._flags.m else r"\A"
        if self._flags.m:
            return rf"(?:(?={ends}){between}|\Z)"
        last = r"\n" if self._flags.d else rf"(?:\r\n|{ends})"
        return rf"(?:(?={last}?\Z){between})"

    def _literal(self, character: str) -> str:
        written = re.escape(character)
        return self._in_any_case(written) if character.lower() != character.upper() else written

    def _in_any_case(self, written: str) -> str:
        if not self._flags.i:
            return written
        return f"(?iu:{written})" if self._flags.u or self._flags.U else f"(?i:{written})"

    # --- groups ----------------------------------------------------------------------------------------

    def _group(self) -> tuple[str, bool]:
        self._at += 1
        if not self._take("?"):
            self._groups += 1
            return self._closed("("), True
        for opening in (":", "=", "!", ">", "<=", "<!"):
            if self._take(opening):
                return self._closed(f"(?{opening}"), True
        if self._take("<"):
            found = self._match(r"([A-Za-z][A-Za-z0-9]*)>")
            if not found:
                raise self._error("a name of a group is letters and digits in '<' and '>'")
            if found[1] in self._names:
                raise self._error(f"the group <{found[1]}> is there twice")
            self._groups += 1
            self._names.add(found[1])
            return self._closed(f"(?P<{found[1]}>"), True
        found = self._match(r"([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
        if not found:
            raise self._error("unknown inline modifier or group")
        outer = self._flags
        changed = dict.fromkeys(found[1], True) | dict.fromkeys(found[2] or "", False)
        self._flags = replace(outer, **changed)
        if found[3] == ")":
            return "", False
        inner = self._closed("(?:")
        self._flags = outer
        return inner, True

    def _closed(self, opening: str) -> str:
        inner = self._alternatives()
        if self._peek() != ")":
            raise self._error("unclosed group")
        self._at += 1
        return f"{opening}{inner})"

    # --- escapes ---------------------------------------------------------------------------------------

    def _escape(self) -> str:
        """What a backslash begins, outside of a class."""
        character = self._text[self._at : self._at + 1]
        if character in "bBAGzZRXk123456789" and character:
            self._at += 1
            return self._special(character)
        predefined = self._predefined()
        if predefined is not None:
            return predefined
        return self._literal(self._escaped_character())

    def _special(self, character: str) -> str:
        if character == "X" or (character == "b" and self._take("{g}")):
            raise self._error("grapheme clusters are not supported")
        if character in "bB":
            return rf"(?u:\{character})"  # in Java 17 the letters of a word are Unicode's
        if character in "AG":
            return r"\A"
        if character == "z":
            return r"\Z"
        if character == "Z":
            outer, self._flags = self._flags, replace(self._flags, m=False)
            anchor = self._anchor("$")
            self._flags = outer
            return anchor
        if character == "R":
            return rf"(?:\r\n|{_VERTICAL})"
        if character == "k":
            found = self._match(r"<([A-Za-z][A-Za-z0-9]*)>")
            if not found or found[1] not in self._names:
                raise self._error("\\k needs the name of a group before it")
            return self._in_any_case(f"(?P={found[1]})")
        return self._back_reference(character)

    def _back_reference(self, digits: str) -> str:
        while (
            (more := self._text[self._at : self._at + 1])
            and more in "0123456789"
            and int(digits + more) <= self._groups
        ):
            digits += self._next()
        if int(digits) > self._groups:
            return r"(?!)"  # in Java a group that is not there matches nothing
        return self._in_any_case(rf"(?:\{digits})")

    def _predefined(self) -> str | None:
        r"""`\d`, `\p{...}` and the like, inside and outside of a class; None if something else follows."""
        character = self._text[self._at : self._at + 1]
        if not character or character not in "dDwWsShHvVpPN":
            return None
        self._at += 1
        if character in "dDwWsS":
            return rf"(?u:\{character})" if self._flags.U else rf"\{character}"
        if character in "hHvV":
            positive = _HORIZONTAL if character in "hH" else _VERTICAL
            return f"[^{positive[1:]}" if character in "HV" else positive
        if character == "N":
            return self._named_character()
        found = self._match(r"\{([^}]*)\}|(.)")
        if not found:
            raise self._error("unclosed character family")
        positive = self._family(found[1] if found[1] is not None else found[2])
        return rf"(?:(?!{positive})[\s\S])" if character == "P" else positive

    def _named_character(self) -> str:
        found = self._match(r"\{([^}]*)\}")
        try:
            return self._literal(unicodedata.lookup(found[1] if found else ""))
        except KeyError:
            raise self._error("unknown name of a character") from None

    def _family(self, name: str) -> str:
        if name in _POSIX:
            positive = _POSIX[name]
            return self._in_any_case(positive) if name in ("Lower", "Upper") else positive
        key, equals, value = name.partition("=")
        if equals:
            if key.lower() not in ("gc", "general_category"):
                raise self._error(f"unknown or unsupported character property {name!r}")
            name = value
        elif name.startswith("Is") and name[2:].upper() in _BINARY:
            return _category(*_BINARY[name[2:].upper()])
        elif name.startswith("Is"):
            name = name[2:]
        if name in _CATEGORIES or (len(name) == 1 and name in "LMNZCPS"):
            return _category(name)
        if name == "LC":
            return _category("Lu", "Ll", "Lt")
        raise self._error(f"unknown or unsupported character property {name!r}")

    def _escaped_character(self) -> str:
        """The character that an escape means."""
        character = self._next()
        if not character:
            raise self._error("unexpected end of the pattern")
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "0":
            found = self._match("[0-3][0-7]{2}|[0-7]{1,2}")
            if not found:
                raise self._error("illegal octal escape sequence")
            return chr(int(found[0], 8))
        if character in "xu":
            return self._hexadecimal(character)
        if character == "c":
            controlled = self._next()
            if not controlled:
                raise self._error("illegal control escape sequence")
            return chr(ord(controlled) ^ 64)
        if character.isascii() and character.isalpha():
            raise self._error(f"illegal or unsupported escape sequence '\\{character}'")
        return character

    def _hexadecimal(self, character: str) -> str:
        found = self._match(r"[0-9A-Fa-f]{4}" if character == "u" else r"[0-9A-Fa-f]{2}|\{([0-9A-Fa-f]+)\}")
        code = int(found[1] if found.re.groups and found[1] else found[0], 16) if found else sys.maxunicode + 1
        if code > sys.maxunicode:
            raise self._error("illegal hexadecimal escape sequence")
        low = re.compile(r"\\u(D[C-F][0-9A-F]{2})", re.IGNORECASE).match(self._text, self._at)
        if character == "u" and 0xD800 <= code < 0xDC00 and low:
            self._at = low.end()
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00)
        return chr(code)

    # --- classes ---------------------------------------------------------------------------------------

    def _class(self) -> str:
        """A class, its opening bracket read: something that matches one character."""
        negated = self._take("^")
        intersection: list[str] = []
        union: list[str] = []
        empty = True  # a closing bracket at the very beginning is a member
        while True:
            character = self._peek()
            if not character:
                raise self._error("unclosed character class")
            if character == "]" and not empty:
                self._at += 1
                break
            if self._text.startswith("&&", self._at):
                while self._take("&"):
                    pass
                if union:
                    intersection.append("|".join(union))
                union = []
                continue
            empty = False
            if character == "[":
                self._at += 1
                union.append(self._class())
            else:
                union.append(self._range())
        if union:
            intersection.append("|".join(union))
        if not intersection:
            raise self._error("bad class syntax")
        last = intersection.pop()
        inside = "".join(f"(?={part})" for part in intersection) + f"(?:{last})"
        return rf"(?:(?!{inside})[\s\S])" if negated else f"(?:{inside})"

    def _range(self) -> str:
        """A member of a class: a character, a range of them, or a predefined class."""
        if self._peek() == "\\":
            self._at += 1
            predefined = self._predefined()
            if predefined is not None:
                return predefined
            first = self._escaped_character()
        else:
            first = self._next()
        after = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or after in ("]", "[", ""):
            return self._literal(first)
        self._at += 1
        if self._peek() == "\\":
            self._at += 1
            last = self._escaped_character()
        else:
            last = self._next()
        if ord(last) < ord(first):
            raise self._error("illegal character range")
        return self._in_any_case(f"[{_character(ord(first))}-{_character(ord(last))}]")
