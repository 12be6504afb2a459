"""A headless Chromium for tests, driven over its debugging pipe (Chrome DevTools Protocol). Standard library only.

    with Browser() as browser, browser.page(1280, 800) as page:
        page.open(url); page.wait("document.querySelector('h1')"); page.screenshot(path)"""

import base64
import json
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading
import time

SECONDS = 120  # of a busy machine

# Stands in for window.fetch. An answer is read whole before it is held, so the browser waits for nothing.
HOLD = """((address, first, last) => {
    const own = window.fetch, held = { come: 0, waiting: 0, read: 0 };
    const gate = new Promise((resolve) => { held.release = resolve; });
    window.held = held;
    window.fetch = async (path, ...rest) => {
        const answer = await own(path, ...rest);
        if (!address.test(path)) return answer;
        held.come++;
        if (held.come < first || held.come > last) return answer;
        held.waiting++;
        await answer.clone().text();
        await gate;
        held.read++;
        return answer;
    };
})"""


def executable():
    """The headless shell where it is: the same pages without the window around each, for half the processor time."""
    return os.environ.get("DELTAQ_CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")


class Failure(Exception):
    pass


class Browser:
    """One process; its own throw-away profile."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="deltaq-chromium-", ignore_cleanup_errors=True)
        to_child, self.commands = os.pipe()
        self.answers, from_child = os.pipe()
        arguments = [executable(), "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                     "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                     "--hide-scrollbars", "--disable-dev-shm-usage", f"--user-data-dir={self.profile.name}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")

        def arrange():  # the protocol reads from descriptor 3 and writes to 4
            high_in, high_out = os.dup2(to_child, 60, True), os.dup2(from_child, 61, True)
            os.dup2(high_in, 3, True)
            os.dup2(high_out, 4, True)

        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=arrange,
                                        start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.number, self.pending, self.pages = 0, {}, {}
        self.lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *exception):
        try:
            self.call("Browser.close", seconds=5)
        except Failure:
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        self.profile.cleanup()

    def _listen(self):
        rest = b""
        while True:
            try:
                chunk = os.read(self.answers, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            *messages, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self.pending.pop(message["id"]).put(message)
                elif message.get("sessionId") in self.pages:
                    self.pages[message["sessionId"]]._event(message)
        for waiting in list(self.pending.values()):
            waiting.put({"error": {"message": "the browser is gone"}})

    def call(self, method, session=None, seconds=SECONDS, **params):
        answer = queue.Queue()
        with self.lock:
            self.number += 1
            message = {"id": self.number, "method": method, "params": params,
                       **({"sessionId": session} if session else {})}
            self.pending[self.number] = answer
            os.write(self.commands, json.dumps(message).encode() + b"\0")
        try:
            found = answer.get(timeout=seconds)
        except queue.Empty:
            raise Failure(f"{method}: no answer in {seconds} s") from None
        if "error" in found:
            raise Failure(f"{method}: {found['error']['message']}")
        return found["result"]

    def page(self, width=1280, height=900, dark=False):
        return Page(self, width, height, dark)


class Page:
    """A tab in a context of its own: no storage, cookies or cache shared with others."""

    def __init__(self, browser, width, height, dark):
        self.browser, self.size, self.dark = browser, (width, height), dark
        self.complaints, self.requests, self.unanswered = [], [], {}

    def __enter__(self):
        self.context = self.browser.call("Target.createBrowserContext")["browserContextId"]
        target = self.browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = self.browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*self.size)
        self.scheme(self.dark)
        self.downloads = tempfile.TemporaryDirectory(prefix="deltaq-downloads-")
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", browserContextId=self.context,
                          downloadPath=self.downloads.name)
        return self

    def __exit__(self, *exception):
        self.browser.pages.pop(self.session, None)
        try:
            self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
        finally:
            self.downloads.cleanup()

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def _event(self, message):
        method, params = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(part.get("value", part.get("description"))) for part in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
            self.unanswered[params["requestId"]] = params.get("type")
        elif method == "Network.responseReceived" and params["response"]["mimeType"] == "text/event-stream":
            self.unanswered.pop(params["requestId"], None)
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self.unanswered.pop(params["requestId"], None)
        elif method == "Page.frameNavigated":  # what the page before it had asked for is nobody's now
            self.unanswered = {name: kind for name, kind in self.unanswered.items() if kind == "Document"}

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, expression):
        """The value of a JavaScript expression; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True,
                          userGesture=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise Failure(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def settle(self, seconds=10):
        """Waits until all that the page asked for is answered and has been drawn, so that what is read next is not half
        of a page. An answer that a test holds back is waited for in vain, `seconds` long; streams do not count."""
        end, calm = time.monotonic() + seconds, 0
        while calm < 2 and time.monotonic() < end:
            self.run("new Promise((done) => setTimeout(done, 5))")
            calm = 0 if self.unanswered else calm + 1

    def wait(self, expression, seconds=60):
        """Waits until the expression is true and the page has settled; its value then (an element has none in Python:
        compare it with null), or the one before where the page went on."""
        end, found = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                found = self.run(expression)
            except Failure as failure:
                found = None
                last = failure
            else:
                last = None
            if found:
                self.settle()
                return self._value(expression) or found
            time.sleep(0.05)
        raise Failure(f"not so within {seconds} s: {expression}" + (f" ({last})" if last else ""))

    def _value(self, expression):
        try:
            return self.run(expression)
        except Failure:  # the page has gone on to where the expression has no meaning
            return None

    def hold(self, address, first=1, last=None):
        """From now on the answers to requests of which the address fits a regular expression are kept from the page
        until release(): those from the `first` to the `last` of them. `held.come` counts all that fit."""
        self.run(f"void {HOLD}(new RegExp({json.dumps(address)}), {first}, {last or 'Infinity'})")

    def release(self, answers=0):
        """Returns once the page has so many held answers (and all that it had asked for before), and has done what
        follows from them."""
        waiting = self.run("(held.release(), held.waiting)")
        self.wait(f"held.read >= {max(answers, waiting)}")
        self.run("""(async () => {
            for (let turn = 0; turn < 20; turn++) await new Promise((done) => setTimeout(done));
        })()""")

    def click(self, selector):
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def key(self, name, code=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code or {"Tab": 9, "Enter": 13, " ": 32}.get(name, 0),
                      **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}))

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def downloaded(self, ending, seconds=SECONDS):
        """Path of the file that was saved, once it is whole."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for file in pathlib.Path(self.downloads.name).iterdir():
                if file.name.endswith(ending) and file.stat().st_size:
                    return file
            time.sleep(0.05)
        raise Failure(f"no file *{ending} was saved within {seconds} s")

    def screenshot(self, path, whole=True):
        """The whole page, not only what the window shows."""
        if whole:
            height = min(6000, max(self.size[1], self.run("document.documentElement.scrollHeight")))
            self.resize(self.size[0], height)
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        if whole:
            self.resize(*self.size)
