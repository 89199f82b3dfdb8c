"""Objects that the compiled part hands over as JSON."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The object of a text that is one."""
    found: dict[str, Any] = json.loads(text)
    return found
