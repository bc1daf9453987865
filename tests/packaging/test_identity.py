"""A wheel, a zip, an editable installation and a source distribution of the same sources are the same build."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kvformat.registry.build import FILE, Build, of_sources
from tests.support.environments import ROOT, Environment, copy_sources, make_zip, run

STORED = f"kvformat/registry/{FILE}"


def test_installations_of_one_source_are_one_build(installed: Environment, source: Path) -> None:
    expected = of_sources(source)
    assert expected.commit == ""  # the copy has no git
    assert installed.python("-m", "kvformat", "--version") == f"kvformat {expected}\n"
    code = "from kvformat import build_identity; print(build_identity())"
    assert installed.python("-c", code) == f"{expected}\n"


def test_a_zip_of_a_checkout_has_its_commit(bare: Environment, tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "zip" / "kvformat.zip")
    with zipfile.ZipFile(archive) as opened:
        assert Build(**json.loads(opened.read(STORED))) == of_sources(ROOT)
    told = bare.python("-m", "kvformat", "--version", PYTHONPATH=str(archive))
    assert told == f"kvformat {of_sources(ROOT)}\n"


def test_wheels_of_other_sources_make_no_zip(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'"sources": "', b'"sources": "0') if name == STORED else content)
    command = [sys.executable, ROOT / "scripts" / "zip", tmp_path / "refused.zip", wheel, other]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{STORED} is not the same in all wheels\n")


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Build]:
    """An unpacked source distribution of a checkout with git, and the checkout's build."""
    folder = tmp_path_factory.mktemp("sdist")
    checkout = copy_sources(folder / "checkout")
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-f", "."), ("commit", "-q", "-m", "first")):
        run(["git", *who, *words], cwd=checkout)
    built = of_sources(checkout)
    run([sys.executable, "-c", "from setuptools.build_meta import build_sdist; build_sdist('..')"], cwd=checkout)
    (packed,) = folder.glob("kvformat-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked, built


def test_a_source_distribution_keeps_the_commit(distribution: tuple[Path, Build]) -> None:
    unpacked, built = distribution
    assert (len(built.commit), built.changed) == (12, False)
    assert of_sources(unpacked) == built
