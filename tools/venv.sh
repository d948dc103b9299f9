# Shared by the scripts that make a virtual environment from a lock. Each sets before sourcing this file:
#   venv        the folder to make        lock    the hashed requirements
#   needed_mib  the disk it takes         log     what pip writes
#   target      the make target to run again

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

say() {
    printf '%s\n' "$*" >&2
}

check_disk() {
    free_mib=$(df -Pm . | awk 'NR == 2 { print $4 }')
    [ "$free_mib" -ge "$needed_mib" ] ||
        fail "$free_mib MiB are free in $(pwd), but setting up takes about $needed_mib; make room or clone onto another disk"
}

# Says in one sentence why pip gave up, from what it wrote.
explain_pip() {
    if grep -q 'No space left on device' "$log"; then
        fail "the disk is full; make room and run make $target again (details: $log)"
    elif grep -q 'DO NOT MATCH THE HASHES' "$log"; then
        fail "the package index served a file that is not the one in $lock; clear pip's cache (pip cache purge) or use another index (details: $log)"
    elif grep -qE 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|SSLError|Could not fetch URL|Connection (refused|reset|aborted)' "$log"; then
        fail "the package index cannot be reached; check the network, or name your index in PIP_INDEX_URL, and run make $target again (details: $log)"
    elif grep -qE 'No matching distribution|Could not find a version' "$log"; then
        fail "your package index lacks a locked package: $(grep -m 1 -oE 'No matching distribution found for [^ ]+' "$log" || true); use another index (PIP_INDEX_URL) or renew the lock with make lock (details: $log)"
    fi
    tail -n 5 "$log" >&2
    fail "pip could not install the locked dependencies; its last words stand above, all of them in $log"
}

install_locked() {
    say "Installing the locked dependencies into $venv (a few minutes the first time) ..."
    # Who interrupted the making of the folder left it without pip.
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >"$log" 2>&1 || explain_pip
    "$venv/bin/python" -m pip install --require-hashes --requirement "$lock" >"$log" 2>&1 || explain_pip
}

# Makes the folder anew with $python.
make_venv() {
    check_disk
    say "Making $venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv" >&2 || fail "$python could not make $venv; what it printed stands above"
}

# Has what the lock names installed, with "editable" this package too, unless it is already.
install_once() {
    if cmp -s "$lock" "$venv/.installed"; then
        return
    fi
    install_locked
    if [ "${1:-}" = editable ]; then
        "$venv/bin/python" -m pip install --no-deps --no-build-isolation --editable . >>"$log" 2>&1 || explain_pip
    fi
    cp "$lock" "$venv/.installed"
}
