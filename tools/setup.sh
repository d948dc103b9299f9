#!/bin/sh
# Makes .venv with the locked dependencies and this package; `make` calls it when the lock has changed.
# Every failure is one sentence that says what to do. PYTHON chooses the interpreter.
set -eu

venv=.venv
lock=requirements.lock
log=$venv/setup.log
needed_mib=3000
target=setup
. "$(dirname "$0")/venv.sh"

supported() {
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# The interpreter asked for, or the first one that fits: `python3` first, because it is the user's own choice.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 ||
            fail "PYTHON=$PYTHON is not a program; name a Python 3.10 to 3.13, such as: make setup PYTHON=python3.12"
        supported "$PYTHON" ||
            fail "PYTHON=$PYTHON is not a Python 3.10 to 3.13 ($("$PYTHON" --version 2>&1 | head -n 1)); name another one"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.10 python; do
        if supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "there is no Python 3.10 to 3.13 on the PATH; install one, or name it: make setup PYTHON=/path/to/python3.12"
}

choose_python() {
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) or name another Python: make setup PYTHON=..."
}

set_up_venv() {
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
        supported "$venv/bin/python" ||
            fail "$venv holds $("$venv/bin/python" --version 2>&1), but Python 3.10 to 3.13 is needed; run make clean, then make setup"
        check_disk
    else
        choose_python
        make_venv
    fi
    install_locked
    "$venv/bin/python" -m pip install --no-deps --no-build-isolation --editable . >>"$log" 2>&1 || explain_pip
}

set_up_venv
