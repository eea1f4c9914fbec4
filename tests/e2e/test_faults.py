"""What a reader is told where JupyterLab, a folder or a kernel is not as it should be."""

import os
import shutil
import socket
import stat

import browser as chrome
import pytest
from e2e import jupyter

FIRST = "00-start-here.ipynb"


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_told_and_another_one_is_found(folder, tmp_path, taken):
    with jupyter.serve(folder, tmp_path, port=taken) as (url, log):
        assert f":{taken}/" not in url
        assert f"port {taken} is already in use, trying another port" in log.read_text()


def test_a_port_that_must_be_had_is_told_and_nothing_starts(folder, tmp_path, taken):
    lab = jupyter.serve(folder, tmp_path, "--ServerApp.port_retries=0", port=taken)
    with pytest.raises(jupyter.NotStarted, match=f"port {taken} is not available"), lab:
        pass


def test_a_missing_browser_is_told_in_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "")
    told = pytest.raises(pytest.fail.Exception, match="apt-get install chromium")
    with told as error, chrome.chromium():
        pass
    assert "\n" not in str(error.value)


@pytest.fixture
def read_only(tmp_path, folder):
    """A folder with one notebook, in which nobody may write."""
    made = tmp_path / "read-only"
    made.mkdir()
    shutil.copy(folder / FIRST, made)
    modes = {path: path.stat().st_mode for path in (made / FIRST, made)}
    for path, mode in modes.items():
        path.chmod(mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    yield made
    for path, mode in reversed(modes.items()):
        path.chmod(mode)


def test_a_notebook_that_cannot_be_saved_still_runs(read_only, tmp_path, tab):
    powers = []
    if os.geteuid() == 0:  # to whom permissions mean nothing, unless that power is given up
        if not shutil.which("setpriv"):
            pytest.skip("an administrator may write everywhere, and there is no setpriv")
        powers = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    with jupyter.serve(read_only, tmp_path / "home", before=powers) as (url, _):
        opened = jupyter.Notebook(tab, url.format(FIRST))
        label = tab.locator(".jp-ToolbarLabelComponent[title*='Save as']")
        assert "read-only" in label.inner_text()
        opened.run("Control+a", "Control+Enter")
        assert opened.errors() == []
        opened.press("Control+s")
        tab.wait_for_selector("text=/is read-only. Use .Save as/")
        opened.end()


def test_a_kernel_without_d2lperf_says_what_to_do(folder, tmp_path, tab):
    lonely = tmp_path / "lonely"
    lonely.mkdir()
    shutil.copy(folder / FIRST, lonely)
    startup = tmp_path / "home" / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "without.py").write_text("import sys\nsys.modules['d2lperf'] = None")
    nowhere = str(tmp_path / "nowhere")
    with jupyter.serve(lonely, tmp_path / "home", D2LPERF_REPO=nowhere) as (url, _):
        opened = jupyter.Notebook(tab, url.format(FIRST))
        opened.run("Control+a", "Control+Enter")
        assert "D2LPERF_REPO" in "".join(opened.errors())
        assert set(opened.counts()[1:]) == {None}, "the cells after it do not run"
        opened.end()
