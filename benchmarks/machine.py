"""On what it was measured: versions and machine, without any name or path of it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

import distributary

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "ptars", "confluent-kafka", "numpy")


def versions(spark: SparkSession) -> dict[str, str]:
    """What ran, by name."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return {
        "distributary": distributary.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "java": str(jvm.java.lang.System.getProperty("java.version")),
    }


def machine() -> dict[str, str | int | float]:
    """Processor, cores that may be used, memory, operating system."""
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "os": _system(),
    }


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _system() -> str:
    system = f"{platform.system()} {platform.release()}"
    with suppress(OSError):
        return f"{system}, {platform.freedesktop_os_release()['PRETTY_NAME']}"
    return system
