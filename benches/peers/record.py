"""Comparisons for the table of ../compare.sh: lines of JSON in the file that $DP_COMPARISONS names, if it names one."""

import json
import os


def record(what, peer, peer_seconds, our_seconds):
    """`peer_seconds` is None for a peer that was given up on."""
    path = os.environ.get("DP_COMPARISONS")
    if path:
        line = {"what": what, "peer": peer, "peer_seconds": peer_seconds, "our_seconds": our_seconds}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
