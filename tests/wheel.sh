#!/bin/sh
# What a user of Python does: a clean virtual environment, `pip install .`, the package's tests without the build tree.
# Takes minutes and the network (pip fetches scikit-build-core and numpy), so no other test runs it.
# usage: tests/wheel.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet . numpy
export MOEC_CACHE="$folder/cache"
env -u PYTHONPATH "$folder/venv/bin/python" tests/python_package.py "$folder/venv/bin/moec"
"$folder/venv/bin/python" -c "import moec; print('installed:', moec.__file__)"
