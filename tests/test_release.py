"""What is released: the files of the wheel, the notes, and the README's links."""

import importlib.util
import sys

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def dev(monkeypatch):
    """`dev(name)`: a file of `.dev`, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / ".dev"))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / ".dev" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    load("links")
    return load


def test_the_readme_has_the_links_of_the_address_in_pyproject(dev):
    links, readme = dev("links"), (ROOT / "README.md").read_text()
    assert links.written(readme, links.repository(ROOT)) == readme
    assert "OWNER" not in readme
    other = links.written(readme, "https://github.com/someone/jaxlens")
    assert other.count("github/someone/jaxlens/blob/main/notebooks/00_tour.ipynb") == 1
    assert other.count("gh/someone/jaxlens/main?urlpath=lab/tree/notebooks/00_tour.ipynb") == 1
    assert "OWNER" not in links.badges("https://github.com/someone/jaxlens")
    assert (ROOT / links.TOUR).exists()
    with pytest.raises(SystemExit, match=r"expected https://github\.com/OWNER/NAME"):
        links.badges("https://example.org/jaxlens")


def test_the_wheel_has_what_a_user_needs_and_no_more(dev):
    release = dev("release")
    needed = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "jaxlens").rglob("*.*")
        if path.suffix != ".pyc" and path.is_file()
    ]
    guides = ("", "core/", "core/lesson/", "course/")
    excluded = [f"jaxlens/{guide}README.md" for guide in guides]
    assert sorted(release.needless(needed)) == excluded  # by pyproject.toml
    others = ["tests/test_cli.py", "jaxlens/x.ipynb", "jaxlens/a.pyc", "jaxlens/lessons/a.png"]
    assert release.needless(others) == others


def test_a_version_has_a_section_of_the_changelog(dev):
    release = dev("release")
    text = "# Changelog\n\n## 0.2.0 (unreleased)\n\n- Two.\n\n## 0.1.0\n\n- One.\n  more\n"
    assert release.notes(text, "0.2.0") == "- Two.\n"
    assert release.notes(text, "0.1.0") == "- One.\n  more\n"
    for version in ("0.3.0", "0.1"):
        with pytest.raises(SystemExit, match=f"has no section {version}"):
            release.notes(text, version)


@pytest.mark.parametrize(
    ("tag", "changelog", "address", "says"),
    [
        ("v0.2.0", "## 0.1.0", "me", "the tag is v0.2.0, the version 0.1.0"),
        ("v0.1.0", "## 0.1.0 (unreleased)", "me", "calls 0.1.0 unreleased"),
        ("v0.1.0", "## 0.1.0 (2030-01-01)", "OWNER", "has no address yet"),
        ("v0.1.0", "## 0.1.0 (2030-01-01)", "me", ""),
    ],
)
def test_only_a_finished_version_is_released(dev, tmp_path, tag, changelog, address, says):
    release = dev("release")
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    urls = f'[project.urls]\nRepository = "https://github.com/{address}/jaxlens"\n'
    (tmp_path / "pyproject.toml").write_text(urls)
    if not says:
        release.check_tag(tag, "0.1.0", tmp_path)
        return
    with pytest.raises(SystemExit, match=says):
        release.check_tag(tag, "0.1.0", tmp_path)
