//! The page of `ringtrace report` in a browser. Run by `cargo xtask browser`, which says what it needs.

mod sample;

use std::path::Path;
use std::process::Command;

use sample::Variation;

/// Presses keys, searches, and leaves what the page says to it in an attribute.
const DRIVER: &str = r#"<script>{
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
document.body.dataset.log = log.join('|');
}</script></body>"#;

fn browser(arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1400", "--virtual-time-budget=3000"]);
    let output = command.args(arguments).output().expect("Chromium is needed: apt-get install chromium");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

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

    let shot = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.png");
    browser(&[&format!("--screenshot={}", shot.display()), &format!("file://{}", path.display())]);
    assert!(std::fs::metadata(&shot).unwrap().len() > 10_000);
    println!("look at {}", shot.display());

    std::fs::write(&path, page.replace("</body>", DRIVER)).unwrap();
    let text = String::from_utf8(browser(&["--dump-dom", &format!("file://{}", path.display())])).unwrap();
    let log = text.split("data-log=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("the script ran to its end");
    let [all, nearer, later, again, found, at, has_focus, home, is_drawn] = log.split('|').collect::<Vec<_>>()[..] else {
        panic!("{log}")
    };
    assert!(all.starts_with("+0 ns to +49."), "{log}");
    assert!(nearer != all && later != nearer && at != all && again == all && home == all, "{log}");
    assert_eq!([found, has_focus, is_drawn], ["20", "true", "true"], "{log}");
}
