#!/usr/bin/env python3
"""Opens a page in headless Chromium and says what became of it, as lines "NAME: VALUE". For the tests, and for pictures of pages.

  look_at.py URL [--width 900] [--height 600] [--phone] [--dark] [--wait JAVASCRIPT] [--seconds 30] [--screenshot FILE]
             [--value JAVASCRIPT]... [--kill PID]

With --kill it ends that process as soon as the page is there. Waits until the first expression is true, at most that many seconds.
Then prints the value of each --value, how wide the window
and the page are, every address that was asked for, and every message of the browser, such as one about the page's policy. Speaks the
DevTools protocol over pipes, with the standard library only.
"""
import argparse
import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
    "--no-proxy-server", "--hide-scrollbars", "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


class Browser:
    """A new Chromium with a new profile. Both are removed at the end."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.home = tempfile.TemporaryDirectory(prefix="millrace-chromium-", ignore_cleanup_errors=True)
        theirs_in, self.write_to = os.pipe()
        self.read_from, theirs_out = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", "chromium", *OPTIONS, f"--user-data-dir={self.home.name}/profile", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.home.name))
        os.close(theirs_in)
        os.close(theirs_out)
        self.received = b""
        self.events = []
        self.count = 0
        self.session = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.home.cleanup()

    def message(self):
        while b"\0" not in self.received:
            if not select.select([self.read_from], [], [], max(0, self.end - time.monotonic()))[0]:
                raise SystemExit("look_at: the browser did not answer in time")
            more = os.read(self.read_from, 65536)
            if not more:
                raise SystemExit("look_at: the browser has ended")
            self.received += more
        first, self.received = self.received.split(b"\0", 1)
        return json.loads(first)

    def call(self, method, **parameters):
        self.count += 1
        request = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_to, data):]
        while True:
            message = self.message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise SystemExit(f"look_at: {method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"look_at: {expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        while not self.value(f"Boolean({expression})"):
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, default=600)
    parser.add_argument("--phone", action="store_true")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--wait", default="true")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--kill", type=int)
    parser.add_argument("--screenshot")
    parser.add_argument("--value", action="append", default=[])
    options = parser.parse_args()
    with Browser(options.seconds) as browser:
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            browser.call(domain + ".enable")
        browser.call("Emulation.setDeviceMetricsOverride", width=options.width, height=options.height, deviceScaleFactor=1, mobile=options.phone)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if options.dark else "light"}])
        browser.call("Page.navigate", url=options.url)
        # The expressions are about the new page: its address is not that of the blank one.
        browser.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
        if options.kill:
            os.kill(options.kill, signal.SIGKILL)
        browser.wait_for(options.wait)
        for expression in options.value:
            print("value:", json.dumps(browser.value(expression), separators=(",", ":")))
        print("window:", browser.value("innerWidth"))
        print("page:", browser.value("document.documentElement.scrollWidth"))
        if options.screenshot:
            picture = browser.call("Page.captureScreenshot", format="png")["data"]
            with open(options.screenshot, "wb") as file:
                file.write(base64.b64decode(picture))
        for event in browser.events:
            if event["method"] == "Network.requestWillBeSent":
                print("asked for:", event["params"]["request"]["url"])
            elif event["method"] == "Log.entryAdded":
                print("message:", event["params"]["entry"]["text"])
            elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                print("message:", json.dumps(event["params"]))


sys.exit(main())
