# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own user interface, served from the build folder to a headless Chromium."""
import functools
import http.server
import json
import os
import shutil
import tempfile
import threading
import urllib.parse

import browser
import lib
import readers

FOLDER = os.path.join(lib.BUILD, "tools", "perfetto-ui")


class Files(http.server.SimpleHTTPRequestHandler):
    """The pages, and beside them the traces of a folder of their own."""
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}
    traces = None

    def translate_path(self, path):
        if path.startswith("/trace/"):
            return os.path.join(self.traces, os.path.basename(path))
        return super().translate_path(path)

    def log_message(self, *args):
        pass


class Interface:
    def __init__(self):
        readers.fetch("setup-perfetto-ui.sh")
        self.traces = tempfile.mkdtemp(prefix="clika-traces-")
        handler = functools.partial(type("Handler", (Files,), {"traces": self.traces}), directory=FOLDER)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.browser = browser.Browser()

    def open(self, trace, width=1280, height=800, expand=".*", **route):
        """The page when it has drawn a trace. @expand: the tracks to unfold; @route: visStart, visEnd, ts, dur as
        links into the interface have them."""
        name = os.path.basename(trace)
        shutil.copy(trace, os.path.join(self.traces, name))
        here = f"http://127.0.0.1:{self.server.server_address[1]}"
        unfold = json.dumps([{"id": "dev.perfetto.ExpandTracksByRegex", "args": [expand]}])
        at = urllib.parse.urlencode({"url": f"{here}/trace/{name}", "startupCommands": unfold, "hideSidebar": "true",
                                     **route}, quote_via=urllib.parse.quote)
        page = self.browser.open(f"{here}/#!/?{at}", width=width, height=height)
        page.wait("!!document.querySelector('.pf-track')", "Perfetto's interface to show tracks")
        page.eval("window.waitForPerfettoIdle(500)")
        return page

    def close(self):
        self.browser.close()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.traces, ignore_errors=True)
