"""What a person would read on an HTML page."""

from __future__ import annotations

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
