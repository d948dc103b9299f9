#!/bin/sh
# Makes .venv with the locked dependencies and this package; `make` calls it when the lock has changed.
# Every failure is one sentence that says what to do. PYTHON chooses the interpreter.
set -eu

venv=.venv
log=$venv/setup.log
needed_mib=3000

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

say() {
    printf '%s\n' "$*" >&2
}

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

check_disk() {
    free_mib=$(df -Pm . | awk 'NR == 2 { print $4 }')
    [ "$free_mib" -ge "$needed_mib" ] ||
        fail "$free_mib MiB are free in $(pwd), but setting up takes about $needed_mib; make room or clone onto another disk"
}

make_venv() {
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) or name another Python: make setup PYTHON=..."
    check_disk
    say "Making $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv" >&2 || fail "$python could not make $venv; what it printed stands above"
}

# Says in one sentence why pip gave up, from what it wrote.
explain_pip() {
    if grep -q 'No space left on device' "$log"; then
        fail "the disk is full; make room and run make setup again (details: $log)"
    elif grep -q 'DO NOT MATCH THE HASHES' "$log"; then
        fail "the package index served a file that is not the one in requirements.lock; clear pip's cache (pip cache purge) or use another index (details: $log)"
    elif grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|SSLError|Could not fetch URL|Connection (refused|reset|aborted)' "$log"; then
        fail "the package index cannot be reached; check the network, or name your index in PIP_INDEX_URL, and run make setup again (details: $log)"
    elif grep -qE 'No matching distribution|Could not find a version' "$log"; then
        fail "your package index lacks a locked package: $(grep -m 1 -oE 'No matching distribution found for [^ ]+' "$log" || true); use another index (PIP_INDEX_URL) or renew the lock with make lock (details: $log)"
    fi
    tail -n 5 "$log" >&2
    fail "pip could not install the locked dependencies; its last words stand above, all of them in $log"
}

install_locked() {
    say "Installing the locked dependencies (a few minutes the first time) ..."
    "$venv/bin/python" -m pip install --require-hashes --requirement requirements.lock >"$log" 2>&1 || explain_pip
    "$venv/bin/python" -m pip install --no-deps --no-build-isolation --editable . >>"$log" 2>&1 || explain_pip
}

set_up_venv() {
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
        supported "$venv/bin/python" ||
            fail "$venv holds $("$venv/bin/python" --version 2>&1), but Python 3.10 to 3.13 is needed; run make clean, then make setup"
        check_disk
    else
        make_venv
    fi
    install_locked
}

set_up_venv
