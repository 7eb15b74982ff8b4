# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that opens files and does what a person would do in it.

It is spoken to through a pair of pipes (--remote-debugging-pipe): no port is opened, and nothing but Chromium
itself is needed.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading

import lib



def path():
    """Of a Chromium, "" when there is none."""
    run = subprocess.run([os.path.join(lib.ROOT, "tools", "find-chromium.sh")], capture_output=True, text=True)
    return run.stdout.strip()


FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe"]


class Browser:
    def __init__(self, width=1280, height=900):
        self.profile = tempfile.mkdtemp(prefix="clika-browser-")
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()

        def wire():  # the two descriptors that Chromium expects
            os.dup2(to_child, 30)
            os.dup2(from_child, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.proc = subprocess.Popen([path(), *FLAGS, f"--user-data-dir={self.profile}",
                                      f"--window-size={width},{height}", "about:blank"], preexec_fn=wire,
                                     pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self._changed = threading.Condition()
        self._answers = {}
        self._next = 0
        self.events = []
        self._closed = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        rest = b""
        while True:
            try:
                data = os.read(self._read, 1 << 20)
            except OSError:
                data = b""
            if not data:
                break
            *whole, rest = (rest + data).split(b"\0")
            with self._changed:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def call(self, method, session=None, **params):
        self._next += 1
        number = self._next
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._answers or self._closed, lib.PATIENCE):
                raise AssertionError(f"Chromium did not answer {method}")
            if number not in self._answers:
                raise AssertionError(f"Chromium ended before it answered {method}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, **kw):
        return Page(self, url, **kw)

    def close(self):
        if self.proc.poll() is None:
            try:
                self.call("Browser.close")
            except (AssertionError, OSError):
                pass
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        for fd in (self._write, self._read):
            try:
                os.close(fd)
            except OSError:
                pass
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab. Everything that its document asks for, and every error, is kept."""

    def __init__(self, browser, url, width=1280, height=900, dark=False):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.resize(width, height)
        self.scheme(dark)
        self.call("Page.navigate", url=url)
        lib.wait_for(lambda: self.eval("document.readyState") == "complete", f"{url} to be loaded")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def events(self, method):
        with self.browser._changed:
            return [e["params"] for e in self.browser.events
                    if e.get("sessionId") == self.session and e["method"] == method]

    def eval(self, expression):
        """Value of an expression, which may be a promise. An exception in it fails the test."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def wait(self, expression, what):
        return lib.wait_for(lambda: self.eval(expression), what)

    def errors(self):
        """What scripts threw and what the browser refused or complained about."""
        return ([e["exceptionDetails"] for e in self.events("Runtime.exceptionThrown")] +
                [e["entry"] for e in self.events("Log.entryAdded") if e["entry"]["level"] == "error"])

    def requests(self):
        return [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]

    def box(self, selector):
        return self.eval("(() => { const b = document.querySelector(%s).getBoundingClientRect();"
                         " return {x: b.x, y: b.y, width: b.width, height: b.height}; })()" % json.dumps(selector))

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click_at(self, x, y, clicks=1):
        self.move(x, y)
        for n in range(1, clicks + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=n)

    def click(self, selector):
        self.eval(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        b = self.box(selector)
        self.click_at(b["x"] + b["width"] / 2, b["y"] + b["height"] / 2)

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.move(x0, y0)
        for kind, x, y in (("mousePressed", x0, y0), ("mouseMoved", (x0 + x1) / 2, (y0 + y1) / 2),
                           ("mouseMoved", x1, y1), ("mouseReleased", x1, y1)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1,
                      modifiers=modifiers)

    def wheel(self, x, y, dy, modifiers=0):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=dy, modifiers=modifiers)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, selector=None, whole=False):
        clip = {}
        if selector:
            b = self.eval("(() => { const b = document.querySelector(%s).getBoundingClientRect(); return {x: b.x + scrollX,"
                          " y: b.y + scrollY, width: b.width, height: b.height}; })()" % json.dumps(selector))
            clip = {"clip": {**b, "scale": 1}, "captureBeyondViewport": True}
        elif whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
                    "captureBeyondViewport": True}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
