//! The page of `ringtrace report` in a browser. Run by `cargo xtask browser`, which says what it needs.

mod chromium;
mod sample;

use std::process::Command;

use chromium::Browser;
use sample::Variation;

/// Presses keys, searches, and gives what the page says to it.
const DRIVER: &str = r#"(() => {
const log = [], where = () => log.push(document.getElementById('where').textContent);
const key = name => { canvas.dispatchEvent(new KeyboardEvent('keydown', { key: name, cancelable: true })); where(); };
where(); key('+'); key('ArrowRight'); key('0');
search.value = 'request'; search.dispatchEvent(new Event('input'));
log.push(String(found.querySelectorAll('button').length));
found.querySelector('button').click(); where();
log.push(String(document.activeElement === canvas));
key('Home');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
log.push(String(pixels.some(value => value > 0)));
return log;
})()"#;

#[test]
#[ignore = "needs Chromium"]
fn keys_search_and_timeline_do_what_they_say() {
    let here = tempfile::tempdir().unwrap();
    sample::write(&here.path().join("shop"), Variation { discarded: 3, ..Variation::default() });
    let path = here.path().join("report.html");
    let made = Command::new(env!("CARGO_BIN_EXE_ringtrace"))
        .args(["report", "shop", "-o", "report.html"])
        .current_dir(here.path())
        .output();
    assert!(made.unwrap().status.success());
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing comes from a network");

    let mut browser = Browser::open(&format!("file://{}", path.display()));
    browser.wait("document.readyState === 'complete'");
    browser.screenshot("report.png");
    let log = browser.evaluate(DRIVER);
    let log: Vec<&str> = log.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let [all, nearer, later, again, found, at, has_focus, home, is_drawn] = log[..] else { panic!("{log:?}") };
    assert!(all.starts_with("+0 ns to +49."), "{log:?}");
    assert!(nearer != all && later != nearer && at != all && again == all && home == all, "{log:?}");
    assert_eq!([found, has_focus, is_drawn], ["20", "true", "true"], "{log:?}");
}
