#!/bin/sh
# Makes .venv-compat, where Spark 3.4.1 has the genuine from_protobuf; once, and again when its lock has changed.
# A machine without a Python or Java that this Spark runs on is told so in one sentence: exit code 3, which is no failure.
# PYTHON chooses the interpreter.
set -eu

cd "$(dirname "$0")/.."
venv=.venv-compat
lock=requirements-compat.lock
log=$venv/setup.log
needed_mib=2500
target=test-compat
. tools/venv.sh

skip() {
    printf 'skipped: %s\n' "$*"
    exit 3
}

supported() {
    "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3.11 python3.10 python3 .venv/bin/python; do
        if supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

is_java_17() {
    "$1" -version 2>&1 | grep -q 'version "17'
}

# Spark 3.4.1 and its launcher take the Java of JAVA_HOME, else the one on PATH.
is_java_17 "${JAVA_HOME:+$JAVA_HOME/bin/}java" ||
    skip "Spark 3.4.1 needs Java 17, which neither JAVA_HOME nor PATH leads to"

if ! { [ -x "$venv/bin/python" ] && supported "$venv/bin/python"; }; then
    python=$(find_python)
    [ -n "$python" ] || skip "Spark 3.4.1 needs a Python 3.10 or 3.11 with its venv module, and there is none on PATH"
    make_venv
fi

install_once
