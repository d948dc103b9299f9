#!/bin/sh
# Fetches the stores that the tests of ingest/storage run against, or with `s3` only the one that speaks S3. What this machine
# cannot have is said and left out; its tests are then skipped by name.
set -eu

cd "$(dirname "$0")/.."
venv=.venv-stores
lock=requirements-stores.lock
log=$venv/setup.log
needed_mib=500
target=test-stores
. tools/venv.sh

without() {
    say "without $1: its tests are skipped"
}

# S3: gofakes3 is a hundred times as quick as moto.
fetch_s3() {
    if command -v go >/dev/null 2>&1 &&
        GOBIN=$(pwd)/.venv/bin go install github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0; then
        return
    fi
    fetch_moto
}

packages_of() {
    "$1/bin/python" -c "import sysconfig; print('$2' % sysconfig.get_path('purelib'))"
}

# moto and boto3 need other versions than .venv has. Behind these come .venv's packages, for the tests that need both.
fetch_moto() {
    python=.venv/bin/python
    version='import sys; print(sys.version_info[:2])'
    if [ "$("$venv/bin/python" -c "$version" 2>/dev/null)" != "$("$python" -c "$version")" ]; then
        make_venv
    fi
    install_once
    packages_of .venv "import site; site.addsitedir(%r)" >"$(packages_of "$venv" "%s")/behind.pth"
}

fetch_azure() {
    command -v npm >/dev/null 2>&1 || return 1
    npm install --silent --no-audit --no-fund --prefix .venv/azurite azurite@3.37.0 || return 1
    ln -sf ../azurite/node_modules/.bin/azurite-blob .venv/bin/azurite-blob
}

fetch_kinesis() {
    command -v npm >/dev/null 2>&1 || return 1
    npm install --silent --no-audit --no-fund --prefix .venv/kinesalite kinesalite@3.3.3 || return 1
}

check_disk
fetch_s3
[ "${1:-all}" = all ] || exit 0
(fetch_moto) || without "moto and boto3"
fetch_azure || without Azurite
fetch_kinesis || without kinesalite
.venv/bin/python -m tests.ingest.storage.hdfs_jar || without HDFS
