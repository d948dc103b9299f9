#!/bin/sh
# Runs tests/compat: the codecs through the genuine functions of Spark 3.4.1, in a virtual environment of their own.
# A machine that has no such environment is no failure. PYTHON chooses the interpreter; arguments go to pytest.
set -eu

cd "$(dirname "$0")/.."
sh tools/setup_compat.sh || { code=$?; [ "$code" -eq 3 ] && exit 0; exit "$code"; }

# Not tests/conftest.py: it asks for the Spark of the ordinary run. That old Spark's own deprecations are nobody's concern.
unset SPARK_HOME PYTHONPATH
exec .venv-compat/bin/python -m pytest --confcutdir=tests/compat -p no:cacheprovider -W ignore::DeprecationWarning -rs \
    tests/compat "$@"
