#!/bin/sh
# Makes .venv-spark-X, where the package runs on Spark X (3.5 or 4.1) instead of the one in .venv; once, and again when its lock
# has changed. A machine without a Python or Java that this Spark runs on is told so in one sentence: exit code 3, which is no failure.
# OTHER_SPARK names the Spark, PYTHON the interpreter.
set -eu

cd "$(dirname "$0")/.."
spark=$(echo "$OTHER_SPARK" | cut -d . -f 1,2)
venv=.venv-spark-$spark
lock=requirements-spark-$spark.lock
log=$venv/setup.log
needed_mib=2500
target="test-spark OTHER_SPARK=$spark"
. tools/venv.sh

skip() {
    printf 'skipped: %s\n' "$*"
    exit 3
}

[ -f "$lock" ] || fail "there is no $lock; name a Spark that has a lock: OTHER_SPARK=3.5 or OTHER_SPARK=4.1"

# What the table in the code says of this Spark: `needs pythons`, `needs javas`.
needs() {
    PYTHONPATH=src .venv/bin/python -c "
from distributary.ingest.spark.supported import spark_line
print(*spark_line('$spark').$1)"
}
pythons=$(needs pythons)
javas=$(needs javas)

supported() {
    "$1" -c "import sys, ensurepip, venv; sys.exit('%d.%d' % sys.version_info[:2] not in '$pythons'.split())" >/dev/null 2>&1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3.11 python3.10 python3.12 python3.13 .venv/bin/python; do
        if supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

java=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
case " $javas " in
*" ${java:-none} "*) ;;
*) skip "Spark $spark needs Java $javas, which neither JAVA_HOME nor PATH leads to" ;;
esac

if ! { [ -x "$venv/bin/python" ] && supported "$venv/bin/python"; }; then
    python=$(find_python)
    [ -n "$python" ] || skip "Spark $spark needs a Python $pythons with its venv module, and there is none on PATH"
    make_venv
fi

install_once editable
