"""Objects that the compiled part passes as JSON."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """Parse a text that contains a JSON object."""
    found: dict[str, Any] = json.loads(text)
    return found
