"""A prompt with named places. What is put into a place is text, never a template."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PromptTemplate"]


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A text with places written ``{name}``.

    Only the declared names are places; every other brace is a brace. All places are filled in one pass, so a value that
    looks like a place is shown as it is.
    """

    text: str
    fields: tuple[str, ...] = ()
    """Names of the places."""

    def render(self, **values: str) -> str:
        """The text with its places filled.

        Args:
            **values: A text for each field.

        Raises:
            TypeError: A field has no value, or a value has no field.
        """
        if set(values) != set(self.fields):
            raise TypeError(f"the prompt takes {sorted(self.fields)!r}, given {sorted(values)!r}")
        if not self.fields:
            return self.text
        places = re.compile("|".join(re.escape(f"{{{name}}}") for name in self.fields))
        return places.sub(lambda match: values[match[0][1:-1]], self.text)
