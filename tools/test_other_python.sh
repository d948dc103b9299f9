#!/bin/sh
# Runs the tests that need neither Spark nor broker with another Python than .venv's: one a commit, so that all get their turn.
# OTHER=3.12 chooses it, else the commit's hash does. A Python that is not on the machine is said and passed over: if there
# is none at all, that is no failure. Arguments go to pytest.
set -eu

cd "$(dirname "$0")/.."
. tools/venv.sh
lock=requirements.lock
needed_mib=3000
target=test-python

# Also where pyenv keeps them: its python3.12 on PATH runs only if the user has chosen it.
find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c "import sys, ensurepip, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

# The versions that this package supports without the one that `make test` has, beginning with this commit's.
in_turn() {
    own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
    set -- 3.10 3.11 3.12 3.13
    for version in "$@"; do
        shift
        [ "$version" = "$own" ] || set -- "$@" "$version"
    done
    turns=$(sh tools/turn.sh $#)
    while [ "$turns" -gt 0 ]; do
        version=$1
        shift
        set -- "$@" "$version"
        turns=$((turns - 1))
    done
    echo "$@"
}

python=
for version in ${OTHER:-$(in_turn)}; do
    python=$(find_python "$version")
    [ -z "$python" ] || break
    say "Python $version (with its venv module) is not on this machine: passed over"
done
if [ -z "$python" ]; then
    say "skipped: there is no other Python to test with"
    exit 0
fi

venv=.venv-$version
log=$venv/setup.log
if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    make_venv
fi
install_once editable

say "Testing with $("$venv/bin/python" --version)"
# A store that was fetched for .venv serves here as well, and is the quicker one.
PATH="$PATH:$(pwd)/.venv/bin"
export PATH
exec "$venv/bin/python" -m pytest -n "${JOBS:-2}" --dist loadfile --max-worker-restart 1 \
    -m "not spark and not stack and not wheel and not heavy" tests "$@"
