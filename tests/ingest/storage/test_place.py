"""Places as users write them, and which of them are in each other's way."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from distributary.ingest.storage.place import Kind, Place


@pytest.mark.parametrize(
    ("text", "kind", "bucket", "key"),
    [
        ("/lake/tables", "posix", "", "lake/tables"),
        ("/lake/tables/", "posix", "", "lake/tables"),
        ("/", "posix", "", ""),
        ("/with a space", "posix", "", "with a space"),
        ("/100%/a?b#c\\d", "posix", "", "100%/a?b#c\\d"),
        ("s3://bucket", "s3", "bucket", ""),
        ("s3://bucket/", "s3", "bucket", ""),
        ("s3://bucket/a/b/", "s3", "bucket", "a/b"),
        ("s3a://bucket/a", "s3", "bucket", "a"),
        ("S3://bucket/a", "s3", "bucket", "a"),
        ("az://container/a", "azure", "container", "a"),
        ("abfss://container@acc.dfs.core.windows.net/a", "azure", "container", "a"),
        ("abfs://container@acc.blob.core.windows.net/a", "azure", "container", "a"),
        ("gs://bucket/ünï", "gcs", "bucket", "ünï"),
        ("hdfs://node:8020/a", "hdfs", "node:8020", "a"),
        ("hdfs://service/a", "hdfs", "service", "a"),
    ],
)
def test_a_place_is_read(text: str, kind: Kind, bucket: str, key: str) -> None:
    place = Place.parse(text)
    assert (place.kind, place.bucket, place.key) == (kind, bucket, key)
    assert str(place).lower() == (text.rstrip("/") or "/").lower()
    assert Place.parse(str(place)) == place
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lake", "absolute path"),
        ("", "absolute path"),
        ("~/lake", "absolute path"),
        ("file:///lake", "file:// is not supported"),
        ("dbfs://lake", "dbfs:// is not supported"),
        ("s3:///lake", "names no bucket"),
        ("hdfs:///lake", "names no bucket"),
        ("s3://bucket/a//b", "single slashes"),
        ("s3://bucket/../b", "single slashes"),
        ("/lake/./b", "single slashes"),
        ("s3://bucket/100%", "holds a %"),
        ("s3://bucket/a?versions", "holds a %"),
        ("s3://bucket/a#b", "holds a %"),
        ("s3://buc\nket/a", "names no bucket"),
        ("az://container@account/a", "container alone"),
        ("abfss://container/a", "dfs.core.windows.net"),
        ("abfss://container@account/a", "dfs.core.windows.net"),
    ],
)
def test_what_is_no_place_is_told_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Place.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://me:hunter2@bucket/lake", "take user and password out"),
        ("s3a://me:hunter2%2F@bucket/lake", "take user and password out"),
        ("s3://me:hunter2@bucket/lake?versions", "take user and password out"),
        ("s3://me:a/hunter2@bucket/lake", "take user and password out"),
        ("gs://hunter2%40bucket/lake", "names no bucket"),
        ("hdfs://me:hunter2@node:8020/lake", "take user and password out"),
        ("abfss://me:hunter2@acc.dfs.core.windows.net/lake", "take user and password out"),
        ("abfss://c@acc.dfs.core.windows.net/lake?sv=1&sig=hunter2", "leave a query out"),
        ("az://c/lake?sv=1&sig=hunter2", "leave a query out"),
        ("s3://bucket/lake?X-Amz-Signature=hunter2", "leave a query out"),
    ],
)
def test_a_password_or_signature_in_a_url_is_refused_and_not_repeated(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Place.parse(text)
    assert "hunter2" not in str(caught.value)


def test_a_place_below_a_place() -> None:
    assert str(Place.parse("s3://bucket") / "a/b") == "s3://bucket/a/b"
    assert str(Place.parse("/") / "a") == "/a"
    assert Place.parse("/lake").path == Path("/lake") == Path(Place.parse("/lake"))
    with pytest.raises(ValueError, match="single slashes"):
        Place.parse("/lake") / "../b"
    with pytest.raises(ValueError, match="no folder"):
        _ = Place.parse("s3://bucket/a").path
    with pytest.raises(ValueError, match="no folder"):
        Path(Place.parse("s3://bucket/a"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake", "/lake"),
        ("/lake", "/lake/tables"),
        ("/", "/lake"),
        ("s3://bucket/a", "s3a://bucket/a/b"),
        ("s3://bucket", "s3://bucket/a"),
        ("az://c/a", "abfss://c@account.dfs.core.windows.net/a/b"),
        ("abfs://c@account.blob.core.windows.net/a", "abfss://c@account.dfs.core.windows.net/a"),
        ("hdfs://node/a", "hdfs://node/a/b"),
    ],
)
def test_places_in_each_other_overlap(one: str, other: str) -> None:
    assert Place.parse(one).overlaps(Place.parse(other))
    assert Place.parse(other).overlaps(Place.parse(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake", "/lake2"),
        ("/lake/a", "/lake/b"),
        ("/bucket/a", "s3://bucket/a"),
        ("s3://bucket/a", "s3://bucket/ab"),
        ("s3://bucket/a", "s3://other/a"),
        ("s3://bucket/a", "gs://bucket/a"),
        ("abfss://c@one.dfs.core.windows.net/a", "abfss://c@two.dfs.core.windows.net/a"),
        ("hdfs://node/a", "hdfs://other/a"),
    ],
)
def test_places_beside_each_other_do_not(one: str, other: str) -> None:
    assert not Place.parse(one).overlaps(Place.parse(other))
    assert not Place.parse(other).overlaps(Place.parse(one))
