# Sourced by the scripts beside it.
#
#   python="$(peer_python NAME PACKAGE...)"
#
# Prints the Python that runs a peer: $PEER_PYTHON, else that of a virtual environment NAME of its own under the target folder, into
# which the packages are installed when it is made.
peer_python() {
  local name="$1" folder
  shift
  if [ -n "${PEER_PYTHON:-}" ]; then
    echo "$PEER_PYTHON"
    return
  fi
  folder="${CARGO_TARGET_DIR:-target}/peers-$name"
  if [ ! -e "$folder/installed" ]; then
    python3 -m venv --clear "$folder" >&2
    "$folder/bin/python" -m pip install --quiet "$@" >&2
    touch "$folder/installed"
  fi
  echo "$folder/bin/python"
}
