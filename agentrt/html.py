"""What a person would read on an HTML page."""

from __future__ import annotations

import re
from pathlib import PurePath

_BEGINS_AS_HTML = re.compile(
    r"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_NOT_READ = ("nav", "footer", "button", "head")


def text_of_html(page: str) -> str:
    """The text of an HTML page, a line for each block and each row of a table.

    White space is one space; scripts, styles, navigation, footers and buttons are left out.
    """
    from inscriptis import get_text
    from inscriptis.css_profiles import CSS_PROFILES
    from inscriptis.html_properties import Display
    from inscriptis.model.config import ParserConfig
    from inscriptis.model.html_element import HtmlElement

    hidden = {tag: HtmlElement(display=Display.none) for tag in _NOT_READ}
    laid_out = get_text(page, ParserConfig(css={**CSS_PROFILES["strict"], **hidden}))
    lines = (" ".join(line.split()) for line in laid_out.splitlines())
    return "\n".join(line for line in lines if line)


def text_of_page(content: str, name: str = "") -> str:
    """A file's content as text: of an HTML page what `text_of_html` gives, else itself.

    It is one if its `name` ends in .html, .htm or .xhtml, or if it begins as one.
    """
    is_html = PurePath(name).suffix.lower() in (".html", ".htm", ".xhtml")
    return text_of_html(content) if is_html or _BEGINS_AS_HTML.match(content) else content
