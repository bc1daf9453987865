"""Tables in an S3 store: commits by conditional puts, files, the upkeep. Without Spark, against moto's server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import boto3
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kvformat.registry.streams.delta.files import read_file, write_file
from kvformat.registry.streams.delta.log import CommitConflict, DeltaLog, WriterTransaction
from kvformat.registry.streams.delta.storage import TableStorage
from kvformat.registry.streams.delta.upkeep import discard, keep_up

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""  # in a process of its own: Arrow's calls of deltalake's store keep Python's lock
_SECRET = "hunter2"


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    command = [sys.executable, "-W", "ignore", "-c", _SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        region, key = "us-east-1", "somebody"
        client = boto3.client(
            "s3", endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=_SECRET, region_name=region
        )
        client.create_bucket(Bucket="lake")
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": region,
        }
        assert process.stdin is not None
        process.stdin.close()


def test_of_two_commits_to_a_version_one_is_refused(store: dict[str, str]) -> None:
    storage = TableStorage.of("s3://lake/shop/t", store)
    assert DeltaLog.open(storage) is None
    columns = T.StructType([T.StructField("id", T.IntegerType())])
    DeltaLog.create(storage, columns, {})
    with pytest.raises(CommitConflict):
        DeltaLog.create(storage, columns, {})
    first, second = DeltaLog.open(storage), DeltaLog.open(storage)
    assert first is not None
    assert second is not None
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})
    files = [write_file(storage, rows) for _ in range(2)]
    first.commit([files[0]], [], WriterTransaction("q", 1))
    with pytest.raises(CommitConflict):
        second.commit([files[1]], [], WriterTransaction("q", 1))
    discard(storage, files)
    log = DeltaLog.open(storage)
    assert log is not None
    assert ([file.name for file in log.files()], log.position("q")) == ([files[0].name], 1)
    assert read_file(storage, files[0].name, log.schema).equals(rows)
    with pytest.raises(FileNotFoundError):
        read_file(storage, files[1].name, log.schema)
    assert _SECRET not in repr(storage)


def test_the_upkeep_joins_small_files(store: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    storage = TableStorage.of("s3://lake/shop/many", store)
    DeltaLog.create(storage, T.StructType([T.StructField("id", T.IntegerType())]), {})
    for number in range(6):
        log = DeltaLog.open(storage)
        assert log is not None
        rows = pa.table({"id": pa.array([number], pa.int32())})
        log.commit([write_file(storage, rows)], [], WriterTransaction("q", number))
        keep_up(storage, log.version + 1, 6)
    log = DeltaLog.open(storage)
    assert log is not None
    (file,) = log.files()
    assert sorted(read_file(storage, file.name, log.schema).column("id").to_pylist()) == [*range(6)]
    assert log.position("q") == 5
    assert caplog.records == []
