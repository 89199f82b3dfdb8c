"""Comparisons for the table of ../compare.sh: lines of JSON in the file named by $DP_COMPARISONS, if it is set."""

import json
import os


def record(what, peer, peer_seconds, our_seconds):
    """`peer_seconds` is None for a peer that was stopped."""
    path = os.environ.get("DP_COMPARISONS")
    if path:
        line = {"what": what, "peer": peer, "peer_seconds": peer_seconds, "our_seconds": our_seconds}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
