//! Drives Chromium by its DevTools protocol: messages of JSON that end with a zero byte, by the pipes of
//! `--remote-debugging-pipe` (file descriptors 3 and 4). Every call waits for its answer; what the page does meanwhile
//! (errors, requests) is kept.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The names that it has: Debian's, and others'.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// More than it ever takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends with this value.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    session: String,
    problems: Vec<String>,
    requests: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it, with an empty page of this size.
    ///
    /// # Errors
    /// There is none, or it does not work.
    pub fn start(width: u32, height: u32) -> Result<Self, String> {
        let program = NAMES.iter().find(|name| is_there(name));
        let program = program.ok_or("there is no browser: install chromium, as .ci/run does")?;
        let profile = tempfile::tempdir().map_err(|problem| problem.to_string())?;
        let mut command = Command::new("sh");
        // The shell gives our ends of two pipes the numbers that they are to have.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program]);
        // Root has no sandbox; a container has little in /dev/shm.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args([
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-extensions",
            "--hide-scrollbars",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--window-size={width},{height}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|problem| format!("{command:?}: {problem}"))?;
        let (to, from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(from).split(0).map_while(Result::ok);
            for message in messages.filter_map(|bytes| serde_json::from_slice(&bytes).ok()) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            to,
            from: receiver,
            last: 0,
            session: String::new(),
            problems: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach)?;
        browser.session = session["sessionId"].as_str().ok_or("a session has no name")?.to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size)?;
        Ok(browser)
    }

    /// Opens a page, and waits until it is drawn by its script, which then sets the mark `rows`.
    ///
    /// # Errors
    /// It is not drawn in time.
    pub fn open(&mut self, path: &Path) -> Result<(), String> {
        let path = path.to_str().ok_or("the path of the page is not UTF-8")?;
        self.requests.clear();
        self.call("Page.navigate", json!({"url": format!("file://{path}")}))?;
        self.wait("performance.getEntriesByName('rows').length > 0")
    }

    /// The value of an expression in the page.
    ///
    /// # Errors
    /// It throws.
    pub fn value(&mut self, expression: &str) -> Result<Value, String> {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(format!("`{expression}`: {thrown}")),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// The text that an expression has.
    ///
    /// # Errors
    /// As [`value`](Self::value), or it is no text.
    pub fn text(&mut self, expression: &str) -> Result<String, String> {
        let value = self.value(expression)?;
        value.as_str().map(str::to_owned).ok_or_else(|| format!("`{expression}` is {value}"))
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// It does not become so; then what it is.
    pub fn wait(&mut self, expression: &str) -> Result<(), String> {
        let start = Instant::now();
        loop {
            // While a page is replaced by another, its world is gone.
            let value = self.value(expression);
            if value == Ok(Value::Bool(true)) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE / 4 {
                return Err(format!("waited in vain for `{expression}`: {value:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks with the mouse on the middle of the first element that a CSS selector finds.
    ///
    /// # Errors
    /// There is no such element in sight.
    pub fn click(&mut self, selector: &str) -> Result<(), String> {
        let place = format!(
            "(() => {{ const it = document.querySelector({}); if (!it) return null; it.scrollIntoView({{block: 'nearest'}}); \
             const {{x, y, width, height}} = it.getBoundingClientRect(); return [x + width / 2, y + height / 2]; }})()",
            json!(selector)
        );
        let place = self.value(&place)?;
        let [x, y] = [&place[0], &place[1]];
        if x.is_null() {
            return Err(format!("there is no `{selector}` to click on"));
        }
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Presses a key: a character, or one of the names that the page sees (`Enter`, `ArrowDown`).
    ///
    /// # Errors
    /// The browser has ended.
    pub fn press(&mut self, key: &str) -> Result<(), String> {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowDown" => 40,
            "ArrowUp" => 38,
            "End" => 35,
            _ => 0,
        };
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let down = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", down)?;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", up).map(drop)
    }

    /// Types a text.
    ///
    /// # Errors
    /// As [`press`](Self::press).
    pub fn write(&mut self, text: &str) -> Result<(), String> {
        text.chars().try_for_each(|key| self.press(&key.to_string()))
    }

    /// Whether the system prefers `dark` or `light`.
    ///
    /// # Errors
    /// As [`press`](Self::press).
    pub fn prefer(&mut self, scheme: &str) -> Result<(), String> {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// A picture of what is in sight, as the bytes of a PNG in Base64.
    ///
    /// # Errors
    /// As [`press`](Self::press).
    pub fn picture(&mut self) -> Result<String, String> {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}))?;
        answer["data"].as_str().map(str::to_owned).ok_or_else(|| "there is no picture".to_owned())
    }

    /// What the page has done wrong so far: errors of scripts, messages to the console, requests besides that for itself.
    ///
    /// # Errors
    /// As [`press`](Self::press).
    pub fn problems(&mut self) -> Result<Vec<String>, String> {
        // What it has done before this is known after it.
        self.value("0")?;
        let requests = self.requests.iter().skip(1).filter(|url| !url.starts_with("data:"));
        Ok(self.problems.iter().cloned().chain(requests.map(|url| format!("asks for {url}"))).collect())
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).map_err(|problem| format!("the browser has ended: {problem}"))?;
        loop {
            let message = self.from.recv_timeout(PATIENCE).map_err(|problem| match problem {
                RecvTimeoutError::Timeout => format!("the browser does not answer {method}"),
                RecvTimeoutError::Disconnected => format!("the browser has ended in {method}"),
            })?;
            if message["id"] == self.last {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let it = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.problems.push(it["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") => self.problems.push(it["args"].to_string()),
            Some("Log.entryAdded") => self.problems.push(it["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                self.requests.push(it["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // So that its own processes end with it.
        let _ = self.call("Browser.close", json!({}));
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
