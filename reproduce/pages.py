"""Pages with places that are filled in from results.

A place begins with the line `<!-- begin NAME -->` and ends with
`<!-- end NAME -->`. What stands anywhere else is left as it is.
"""

import re


def fill_in(text: str, name: str, content: str) -> str:
    """Returns the text with a place filled in.

    Args:
        text: String, Markdown with one place of that name.
        name: String.
        content: String, what is to stand there.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    place = re.compile(f"{begin}\n.*?{end}", re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ValueError(
            f"Expected one place for {name!r}, between the lines {begin!r} and "
            f"{end!r}. Received: {len(place.findall(text))} of them"
        )
    return place.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)
