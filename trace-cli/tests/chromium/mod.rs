//! Headless Chromium, driven by the Chrome DevTools Protocol over a pair of pipes; and a web server for what it shows.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Of the page.
    session: String,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens a page.
    pub fn open(url: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // It reads requests from descriptor 3 and writes to 4, each message with a zero behind it.
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1500,1400"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut browser = Browser { process, input, output, session: String::new(), number: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": url }));
        let session = browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// The result of a method; messages about other things are passed over.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        write!(self.input, "{request}\0").unwrap();
        loop {
            let mut message = Vec::new();
            self.output.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "Chromium is needed: apt-get install chromium");
            let mut message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.number {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
        }
    }

    /// What an expression is in the page, if that has come so far.
    fn evaluated(&mut self, expression: &str) -> Result<Value, Value> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters);
        if answer["exceptionDetails"].is_null() { Ok(answer["result"]["value"].take()) } else { Err(answer) }
    }

    /// What an expression is in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.evaluated(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until an expression is true in the page.
    pub fn wait(&mut self, expression: &str) {
        for _ in 0..1200 {
            if self.evaluated(expression).is_ok_and(|value| value == true) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("never: {expression}");
    }

    /// Writes what is to be seen to a file, and says where.
    pub fn screenshot(&mut self, name: &str) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, base64(shot["data"].as_str().unwrap())).unwrap();
        println!("look at {}", path.display());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a text in base 64 stands for.
fn base64(text: &str) -> Vec<u8> {
    let digit = |character: u8| match character {
        b'A'..=b'Z' => u32::from(character - b'A'),
        b'a'..=b'z' => u32::from(character - b'a') + 26,
        b'0'..=b'9' => u32::from(character - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = group.iter().fold(0, |bits, &character| bits << 6 | digit(character)) << (6 * (4 - group.len()));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}

/// Serves the files of a directory, and others by their names, until this process ends; gives the address.
pub fn serve(root: &Path, others: &[(&str, PathBuf)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (root, others): (PathBuf, Vec<_>) =
        (root.into(), others.iter().map(|(name, path)| ((*name).to_owned(), path.clone())).collect());
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (root, others) = (root.clone(), others.clone());
            thread::spawn(move || answer(connection, &root, &others));
        }
    });
    address
}

fn answer(mut connection: TcpStream, root: &Path, others: &[(String, PathBuf)]) -> Option<()> {
    let mut lines = BufReader::new(connection.try_clone().ok()?).lines();
    let request = lines.next()?.ok()?;
    // All of it, for what is closed with something unread is reset.
    while !lines.next()?.ok()?.is_empty() {}
    let name = request.split([' ', '?']).nth(1)?.trim_start_matches('/').to_owned();
    let name = if name.is_empty() { "index.html".to_owned() } else { name };
    let path = others.iter().find(|(other, _)| *other == name).map_or_else(|| root.join(&name), |(_, path)| path.clone());
    let mut body = Vec::new();
    let found = fs::File::open(&path).and_then(|mut file| file.read_to_end(&mut body));
    let status = if found.is_ok() { "200 OK" } else { "404 Not Found" };
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let length = body.len();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
        .ok()?;
    connection.write_all(&body).ok()
}
