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
_TIME = rf"{_CLOCK}:[0-5]\d(?:\.\d{{1,9}})?(?:[Zz]|[+-]{_CLOCK})"

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
_UNICODE_ATOM = r"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[\u00A1-\uD7FF\uE000-\uFFFD])+"

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
    r"\u{10000}-\u{1FFFD}\u{20000}-\u{2FFFD}\u{30000}-\u{3FFFD}\u{E1000}-\u{EFFFD}"
)


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
_IRI, _IRI_REFERENCE = _uri(_UCS, r"\uE000-\uF8FF\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}")

# RFC 6570, section 2
_VARNAME = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
_VARSPEC = rf"{_VARNAME}(?::[1-9]\d{{0,3}}|\*)?"
_TEMPLATE = (
    rf"(?:[^\x00-\x20\x22%'<>\\^`{{|}}]|%[0-9A-Fa-f]{{2}}"
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
    atom, asserted = _ONE_CHARACTER, r"\\[bB]"
    if depth:
        inner = _regex(depth - 1)
        atom += rf"|\((?:\?:)?{inner}\)"
        asserted += rf"|\(\?[=!]{inner}\)|\(\?<[=!](?:{_ONE_CHARACTER})*\)"
    counted = r"[*+?]|\{\d{1,3}(?:,)?\}|\{0,\d{1,3}\}"
    part = rf"(?:{asserted}|(?:{atom})(?:(?:{counted})\??)?)"
    return rf"(?:\^?{part}*\$?)(?:\|\^?{part}*\$?)*"


def _idn_characters() -> str:
    """Letters that IDNA 2008 always allows (RFC 5892, derived property PVALID), as far as they
    need no rule of context."""
    jamo = [(0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF)]
    out: list[str] = []
    for cp in range(0x80, 0xFFFF):
        c = chr(cp)
        if unicodedata.category(c) not in ("Ll", "Lo") or any(a <= cp <= b for a, b in jamo):
            continue
        if unicodedata.normalize("NFKC", c.casefold()) == c:
            out.append(c)
    return "".join(out)


def _idn_hostname() -> str:
    letters = f"[a-z0-9{_idn_characters()}]"
    label = rf"(?:{letters}{{1,15}}|{_LABEL})"
    return rf"{label}(?:\.{label})*"


_EMAIL_DOMAIN = rf"(?:{_HOSTNAME}|\[(?:{IPV4}|IPv6:(?:{IPV6}))\])"

_PATTERNS: dict[str, str] = {
    "date-time": rf"{DATE}[Tt]{_TIME}",
    "date": DATE,
    "time": _TIME,
    "duration": _DURATION,
    "email": rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@{_EMAIL_DOMAIN}",
    "idn-email": rf"(?:{_UNICODE_ATOM}(?:\.{_UNICODE_ATOM})*|{_QUOTED})@"
    rf"(?:{_EMAIL_DOMAIN}|[a-z0-9\u00E0-\u00F6\u0430-\u044F\uAC00-\uD7A3\u4E00-\u9FA5]{{1,15}}"
    r"(?:\.[a-z0-9\u00E0-\u00F6\u0430-\u044F\uAC00-\uD7A3\u4E00-\u9FA5]{1,15})*)",
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
    if name == "regex":
        pattern = _regex(2)
    elif name == "idn-hostname":
        pattern = _idn_hostname()
    else:
        pattern = _PATTERNS.get(name, "")
    if not pattern:
        return None
    dfa = stored(f"whole {pattern}", lambda: determinise(parse(pattern, dialect="ecma")))
    return Strings(dfa, 0, _LENGTHS.get(name))
