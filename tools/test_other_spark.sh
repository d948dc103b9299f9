#!/bin/sh
# Runs the demo in small and a choice of the tests on another Spark than .venv's: one a commit, so that all get their turn.
# OTHER_SPARK=3.5 chooses it, else the commit's hash does. A machine that it cannot run on is no failure. Arguments go to pytest.
set -eu

cd "$(dirname "$0")/.."

# The Sparks that have a lock of their own, beginning with this commit's.
in_turn() {
    set -- requirements-spark-*.lock
    turn=$((0x$(git rev-parse HEAD 2>/dev/null | cut -c 1-7 | grep . || echo 0) % $# + 1))
    eval "echo \"\${$turn}\"" | sed 's/requirements-spark-\(.*\)\.lock/\1/'
}

OTHER_SPARK=${OTHER_SPARK:-$(in_turn)}
export OTHER_SPARK
sh tools/setup_spark.sh || { code=$?; [ "$code" -eq 3 ] && exit 0; exit "$code"; }

venv=.venv-spark-$(echo "$OTHER_SPARK" | cut -d . -f 1,2)
unset SPARK_HOME PYTHONPATH
"$venv/bin/python" -c 'import pyspark, sys; print("Testing with Spark", pyspark.__version__, "and Python", sys.version.split()[0])'

"$venv/bin/distributary" demo --folder "$venv/demo" --games 4 --events 12000 --batch-rows 3000 --corrupt 0.01

# Where Sparks differ: errors, workers, Spark's parser, its own decoders and Delta's writer; then a run whose workers die.
exec "$venv/bin/python" -m pytest -n "${JOBS:-2}" --dist loadfile --max-worker-restart 1 -p no:cacheprovider -m "not heavy" \
    tests/ingest/spark/test_supported.py tests/ingest/spark/test_versions.py tests/ingest/spark/test_error_classes.py \
    tests/ingest/spark/test_daemon.py tests/ingest/spark/test_session_in_use.py tests/ingest/routing/test_expression.py tests/ingest/tables/test_spark_commit.py \
    tests/codecs/avro/test_spark.py tests/codecs/json/test_spark.py tests/ingest/e2e/test_records_deadly.py "$@"
