"""JupyterLab on this machine alone, and a notebook that is open in it, as a reader has them."""

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import TimeoutError as NotInTime

CHECKS = (Path(__file__).parent / "checks.js").read_text(encoding="utf-8")
ROOT = Path(__file__).parents[2]
START_S, ANSWER_S, NOTEBOOK_S = 60, 30, 600
ASKS = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
NOTEBOOK = "jupyterapp.shell.currentWidget"
CODE = f"{NOTEBOOK}.content.widgets.filter(cell => cell.model.type === 'code')"
STATUS = ".jp-Notebook-ExecutionIndicator"


class NotStarted(Exception):
    """JupyterLab did not start; the message is its log."""


def environment(home, **more):
    """A reader's variables: nothing of the tests, and nothing of this user's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "TQDM_", "MPL"))}
    places = {f"JUPYTER_{name}_DIR": str(home / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    places |= {f"JUPYTERLAB_{name}_DIR": str(home / name) for name in ("SETTINGS", "WORKSPACES")}
    return kept | places | {"IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(ROOT)} | more


@contextmanager
def serve(folder, home, *arguments, port=0, before=(), **variables):
    """JupyterLab in a folder: its address with the token, and its log.

    Args:
        folder: where it starts.
        home: an empty folder for its settings and its log.
        arguments: what is added to its command.
        port: where it is to answer; 0 means any that is free.
        before: a command that runs the command.
        variables: what is added to its environment.

    Raises:
        NotStarted: it ended before it answered.
    """
    asks = home / "SETTINGS" / ASKS
    asks.parent.mkdir(parents=True)
    asks.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # of jupyter.org
    command = [os.environ["D2LPERF_LAB"], "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--expose-app-in-browser", *arguments]
    log = home / "log.txt"
    with open(log, "w") as file:
        lab = subprocess.Popen(
            [*before, *command], cwd=folder, env=environment(home, **variables), stdout=file,
            stderr=file,
        )  # fmt: skip
    try:
        yield address(lab, home / "RUNTIME", log), log
    finally:
        if lab.poll() is None:
            lab.send_signal(signal.SIGTERM)  # it ends its kernels, too
        lab.wait(30)


def address(lab, runtime, log):
    """Where JupyterLab answers: a URL with {} in place of what is opened."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and lab.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            try:
                server = json.loads(path.read_text())
            except ValueError:
                break  # not yet written to its end
            return f"{server['url']}lab/tree/{{}}?reset&token={server['token']}"
        time.sleep(0.1)
    raise NotStarted(log.read_text())


class Notebook:
    """A notebook that is open in a tab of the browser, its kernel idle."""

    def __init__(self, page, url):
        self.page = page
        page.add_init_script(CHECKS)
        page.set_default_timeout(START_S * 1000)
        page.goto(url, wait_until="commit")
        page.wait_for_selector(".jp-RenderedMarkdown >> nth=0")
        self.ready()

    def ready(self):
        """Wait for the kernel, and until JupyterLab has asked it for its language."""
        self.see(f"{NOTEBOOK}.sessionContext.ready")
        self.page.set_default_timeout(ANSWER_S * 1000)
        self.see(f"{NOTEBOOK}.sessionContext.session.kernel.info.then(() => true)")
        self.page.wait_for_selector(f"{STATUS}[data-status=idle]")

    def see(self, expression, argument=None):
        return self.page.evaluate(expression, argument)

    @property
    def is_changed(self):
        return self.page.locator(".lm-DockPanel-tabBar .lm-mod-current.jp-mod-dirty").count() == 1

    def press(self, *keys):
        """Press keys in command mode."""
        self.page.locator(".jp-Notebook").first.focus()
        for key in ("Escape", *keys):
            self.page.keyboard.press(key)

    def run(self, *keys, patience_s=NOTEBOOK_S):
        """Start cells by the keyboard; return when all have run and the kernel is idle."""
        done = f"{CODE}.every(cell => cell.model.executionState === 'idle')"
        # A cell may have run before anybody looks, so the model says that one has started.
        said = "(model, change) => window.started ||= change.name === 'executionState'"
        listen = f"{CODE}.forEach(cell => cell.model.stateChanged.connect({said}))"
        self.see(f"() => {{ window.started = false; {listen} }}")
        self.press(*keys)
        self.page.wait_for_function("window.started")
        try:
            self.page.wait_for_function(done, timeout=patience_s * 1000)
        except NotInTime:
            first = f"{CODE}.find(cell => cell.model.executionState !== 'idle')"
            source = self.see(f"{first}.model.sharedModel.source")
            raise AssertionError(f"not done after {patience_s} s:\n{source}") from None
        self.page.wait_for_selector(f"{STATUS}[data-status=idle]")

    def unseen(self):
        """What a reader cannot see, as sentences (checks.js)."""
        return self.see("unseen()")

    def errors(self):
        """The text of each output that is an error or a warning."""
        kinds = '[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]'
        return self.page.locator(kinds).all_text_contents()

    def number(self, selector):
        return self.page.locator(f".jp-CodeCell {selector}").count()

    def text(self):
        return "\n".join(self.page.locator(".jp-OutputArea-output").all_text_contents())

    def output(self, index):
        cell = self.page.locator(".jp-Notebook .jp-Cell").nth(index)
        return cell.locator(".jp-OutputArea").text_content()

    def picture(self, path):
        """The window, at the first figure or else the first table."""
        for selector in (".jp-OutputArea-output img", ".jp-RenderedHTML"):
            if self.number(selector):
                self.page.locator(selector).first.scroll_into_view_if_needed()
                break
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def end(self):
        """End the kernel."""
        self.see(f"{NOTEBOOK}.sessionContext.shutdown()")

    def counts(self):
        return self.see(f"{CODE}.map(cell => cell.model.executionCount)")

    def select(self, index):
        self.see(f"index => {{ {NOTEBOOK}.content.activeCellIndex = index }}", index)

    def write(self, index, source):
        """Type a source into a cell, in place of what it has."""
        self.select(index)
        self.press("Enter", "Control+a")
        self.page.keyboard.insert_text(source)

    def look(self, *, width, dark=False):
        """Choose a theme and the width of the window."""
        theme = f"JupyterLab {'Dark' if dark else 'Light'}"
        self.see("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        self.page.set_viewport_size({"width": width, "height": 900})
        light = str(not dark).lower()
        self.page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
        self.page.wait_for_timeout(500)
