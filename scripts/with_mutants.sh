#!/bin/sh
# For RUSTC_WORKSPACE_WRAPPER: compiles the crates of the workspace with the deliberate bugs, and no other crate.
exec "$@" --cfg privacy_mutants
