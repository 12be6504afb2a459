"""Finds the text of a row in its source: white space of any kind and amount is the same,
so that laying code out anew breaks no row."""

import re


def places(text, old):
    """The matches of `old` in `text`."""
    words = [re.escape(word) for word in old.split()]
    return list(re.finditer(r"\s+".join(words), text))


def replaced(text, old, new):
    """`text` with the one match of `old` replaced; ValueError when there is none or more than one."""
    found = places(text, old)
    if len(found) != 1:
        raise ValueError(f"the old text occurs {len(found)} times")
    lead = old[: len(old) - len(old.lstrip())]
    trail = old[len(old.rstrip()) :]
    return text[: found[0].start()] + new.removeprefix(lead).removesuffix(trail) + text[found[0].end() :]
