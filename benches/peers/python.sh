# Sourced by the other scripts in this folder.
#
#   python="$(peer_python NAME PACKAGE...)"
#
# Prints the Python that runs a peer: $PEER_PYTHON, or otherwise that of a separate virtual environment NAME under the
# target folder, into which the packages are installed when it is created. Fails if they cannot be installed; the next
# call then starts over.
peer_python() {
  local name="$1" folder
  shift
  if [ -n "${PEER_PYTHON:-}" ]; then
    echo "$PEER_PYTHON"
    return
  fi
  folder="${CARGO_TARGET_DIR:-target}/peers-$name"
  if [ ! -e "$folder/installed" ]; then
    # bash continues after a failure in $(...), even with `set -e`
    if ! { python3 -m venv --clear "$folder" && "$folder/bin/python" -m pip install --quiet "$@" && touch "$folder/installed"; } >&2; then
      echo "cannot install $* into $folder: python3 with venv and pip, and PyPI or a mirror of it, are needed; or PEER_PYTHON names a Python that has it" >&2
      return 1
    fi
  fi
  echo "$folder/bin/python"
}
