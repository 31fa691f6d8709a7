"""The `format` keyword: each format of JSON Schema 2020-12 as a regular language.

Where a format's own definition is not regular, or no parser takes all of it, the language is the
largest regular part that every validator agrees on, and the table says what is left out. A format
that is not known asks for nothing (2020-12, section 7.2.3).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from agentrt.errors import SchemaError
from agentrt.schema.limits import locate
from agentrt.schema.regex.determinise import determinise
from agentrt.schema.regex.parse import parse
from agentrt.schema.regex.stored import stored
from agentrt.schema.values.strings import Strings

# RFC 3339. Leap seconds and the year 0000 are left out: no datetime type holds one.
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = (
    r"(?!0000)(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_TIME = rf"{_CLOCK}:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]{_CLOCK})"

# RFC 3339, appendix A
_TIME_PART = r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
_DAYS = rf"\d+D{_TIME_PART}?"
_MONTHS = rf"\d+M(?:\d+D)?{_TIME_PART}?"
_YEARS = rf"\d+Y(?:\d+M(?:\d+D)?)?{_TIME_PART}?"
_DURATION = rf"P(?:\d+W|{_YEARS}|{_MONTHS}|{_DAYS}|{_TIME_PART})"

# RFC 1123, RFC 5890: a label with "--" in its third and fourth places is an A-label, whose Punycode
# no automaton can check; such labels are left out.
_LABEL = r"(?![^.]{2}--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"

# RFC 5321, 4.1.2
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
# RFC 6531, 3.3
_UNICODE = r"\u00A1-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFD}"
_UNICODE_ATOM = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~\-{_UNICODE}]+"
_UNICODE_QUOTED = rf'"(?:[ !#-\[\]-~{_UNICODE}]|\\[ -~])*"'

OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
IPV4 = rf"{OCTET}(?:\.{OCTET}){{3}}"
_HEX16 = r"[0-9A-Fa-f]{1,4}"
_LAST32 = rf"(?:{_HEX16}:{_HEX16}|{IPV4})"
# RFC 3986, section 3.2.2
IPV6 = "|".join(
    [
        rf"(?:{_HEX16}:){{6}}{_LAST32}",
        rf"::(?:{_HEX16}:){{5}}{_LAST32}",
        rf"(?:{_HEX16})?::(?:{_HEX16}:){{4}}{_LAST32}",
        rf"(?:(?:{_HEX16}:){{0,1}}{_HEX16})?::(?:{_HEX16}:){{3}}{_LAST32}",
        rf"(?:(?:{_HEX16}:){{0,2}}{_HEX16})?::(?:{_HEX16}:){{2}}{_LAST32}",
        rf"(?:(?:{_HEX16}:){{0,3}}{_HEX16})?::{_HEX16}:{_LAST32}",
        rf"(?:(?:{_HEX16}:){{0,4}}{_HEX16})?::{_LAST32}",
        rf"(?:(?:{_HEX16}:){{0,5}}{_HEX16})?::{_HEX16}",
        rf"(?:(?:{_HEX16}:){{0,6}}{_HEX16})?::",
    ]
)

_UCS = (
    r"\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
)
_PRIVATE = r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"


def _uri(extra: str = "", private: str = "") -> tuple[str, str]:
    """The absolute and the relative form (RFC 3986; with more characters, RFC 3987)."""
    plain = rf"A-Za-z0-9._~!$&'()*+,;=\-{extra}"
    escape = r"%[0-9A-Fa-f]{2}"
    pchar = rf"(?:[{plain}:@]|{escape})"
    first = rf"(?:[{plain}@]|{escape})+"
    name = rf"(?:[{plain}]|{escape})*"
    literal = rf"\[(?:{IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:\-]+)\]"
    authority = rf"(?:(?:[{plain}:]|{escape})*@)?(?:{literal}|{name})(?::\d*)?"
    path = rf"(?:/{pchar}*)*"
    rootless = rf"{pchar}+{path}"
    absolute = rf"/(?:{rootless})?"
    query = rf"(?:\?(?:[{plain}:@/?{private}]|{escape})*)?"
    fragment = rf"(?:#(?:[{plain}:@/?]|{escape})*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?://{authority}{path}|{absolute}|{rootless}|)"
    relative = rf"(?://{authority}{path}|{absolute}|{first}{path}|)"
    return whole + query + fragment, rf"(?:{whole}|{relative}){query}{fragment}"


_URI, _URI_REFERENCE = _uri()
_IRI, _IRI_REFERENCE = _uri(_UCS, _PRIVATE)

# RFC 6570, section 2
_VARNAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_VARSPEC = rf"{_VARNAME}(?::[1-9]\d{{0,3}}|\*)?"
_TEMPLATE = (
    rf"(?:[!#$&(-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
)
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"


_ONE_CHARACTER = (
    r"[^\x00-\x1F^$\\.*+?()\[\]{}|/]|/|\.|\\[dDwWsSfnrtv0^$\\.*+?()\[\]{}|/-]"
    r"|\\x[0-9A-Fa-f]{2}"
    r"|\\u[0-9A-Fa-f]{4}"
    r"|\[\^?(?:[A-Za-z0-9 _.,:;@#%&=!~<>+*?$/'\x22(){}|]"
    r"|a-z|A-Z|0-9|\\[dDwWsSnrt\\\]\[^/.-])+-?\]"
)


def _regex(depth: int) -> str:
    """Regular expressions (ECMA-262) with groups up to so deep, without references. Assertions are
    not repeated, and what look-behind looks for has one length: no validator refuses those."""
    atom, asserted = _ONE_CHARACTER, r"\^|\$|\\[bB]"
    if depth:
        inner = _regex(depth - 1)
        atom += rf"|\((?:\?:)?{inner}\)"
        asserted += rf"|\(\?[=!]{inner}\)|\(\?<[=!](?:{_ONE_CHARACTER})*\)"
    counted = r"[*+?]|\{\d{1,3}(?:,)?\}|\{0,\d{1,3}\}"
    part = rf"(?:{asserted}|(?:{atom})(?:(?:{counted})\??)?)*"
    return rf"{part}(?:\|{part})*"


def _idn_letters() -> tuple[str, str]:
    """Letters that IDNA 2008 always allows (RFC 5892, derived property PVALID), as far as they
    need no rule of context: those written from left to right, those from right to left."""
    jamo = [(0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF)]
    runs: dict[bool, list[list[int]]] = {False: [], True: []}
    for cp in range(0x80, 0xFFFF):
        c = chr(cp)
        if unicodedata.category(c) not in ("Ll", "Lo") or any(a <= cp <= b for a, b in jamo):
            continue
        if unicodedata.normalize("NFKC", c.casefold()) != c and c not in "\u00df\u03c2":
            continue
        alike = runs[unicodedata.bidirectional(c) != "L"]
        if alike and alike[-1][1] == cp - 1:
            alike[-1][1] = cp
        else:
            alike.append([cp, cp])
    left, right = ("".join(f"{chr(a)}-{chr(b)}" for a, b in alike) for alike in runs.values())
    return left, right


def _u_label(first: str, rest: str) -> str:
    """Short enough that its A-label has no more than 63 characters."""
    return rf"(?![^.]{{2}}--)[{first}](?:[{rest}-]{{0,13}}[{rest}])?"


@lru_cache(maxsize=1)
def _idn_hostname() -> str:
    """Names in ASCII, and names of up to four labels: as A-labels these are never over 253.

    Where one label is written from right to left, none begins with a digit (RFC 5893, section 2).
    """
    left, right = _idn_letters()
    either = rf"(?:{_u_label(f'a-z0-9{left}', f'a-z0-9{left}')}|{_LABEL})"
    forward, backward = _u_label(f"a-z{left}", f"a-z0-9{left}"), _u_label(right, f"0-9{right}")
    ordered = rf"(?:{forward}|(?=[A-Za-z]){_LABEL}|{backward})"
    names = "|".join(rf"{label}(?:\.{label}){{0,3}}" for label in (either, ordered))
    return rf"(?:{_HOSTNAME}|{names})"


_LITERAL = rf"\[(?:{IPV4}|IPv6:(?:{IPV6}))\]"


def _idn_email() -> str:
    local = rf"(?:{_UNICODE_ATOM}(?:\.{_UNICODE_ATOM})*|{_UNICODE_QUOTED})"
    return rf"{local}@(?:{_LITERAL}|{_idn_hostname()})"


_PATTERNS: dict[str, str] = {
    "date-time": rf"{DATE}[Tt]{_TIME}",
    "date": DATE,
    "time": _TIME,
    "duration": _DURATION,
    "email": rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_HOSTNAME}|{_LITERAL})",
    "hostname": _HOSTNAME,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uuid": r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "uri-template": _TEMPLATE,
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(?:0|[1-9]\d*)(?:#|{_POINTER})",
}
_LARGE = {
    "regex": lambda: _regex(2),
    "idn-hostname": _idn_hostname,
    "idn-email": _idn_email,
}
"""Patterns that are worked out only where they are asked for."""
_OTHER_NAMES = {"ip-address": "ipv4", "host-name": "hostname"}
_LENGTHS = {"hostname": 253, "idn-hostname": 253}


def strings(name: object, pointer: str) -> Strings | None:
    """The strings of a format; None for a format that is not known."""
    if not isinstance(name, str):
        raise SchemaError(pointer, f"format is a string, not {name!r:.60}")
    locate(pointer)
    return _compiled(_OTHER_NAMES.get(name, name))


@lru_cache(maxsize=64)
def _compiled(name: str) -> Strings | None:
    pattern = _LARGE[name]() if name in _LARGE else _PATTERNS.get(name)
    if pattern is None:
        return None
    dfa = stored(f"whole {pattern}", lambda: determinise(parse(pattern, dialect="ecma")))
    return Strings(dfa, 0, _LENGTHS.get(name))
