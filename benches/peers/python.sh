# Sourced by the scripts beside it.
#
#   python="$(peer_python NAME PACKAGE...)"
#
# Prints the Python that runs a peer: $PEER_PYTHON, else that of a virtual environment NAME of its own under the target folder, into
# which the packages are installed when it is made. Fails where they cannot be; the next call then starts anew.
peer_python() {
  local name="$1" folder
  shift
  if [ -n "${PEER_PYTHON:-}" ]; then
    echo "$PEER_PYTHON"
    return
  fi
  folder="${CARGO_TARGET_DIR:-target}/peers-$name"
  if [ ! -e "$folder/installed" ]; then
    # bash goes on behind a failure in $(...), whatever `set -e` says
    if ! { python3 -m venv --clear "$folder" && "$folder/bin/python" -m pip install --quiet "$@" && touch "$folder/installed"; } >&2; then
      echo "cannot install $* into $folder: python3 with venv and pip, and PyPI or a mirror of it, are needed; or PEER_PYTHON names a Python that has it" >&2
      return 1
    fi
  fi
  echo "$folder/bin/python"
}
