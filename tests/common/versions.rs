//! A program with two versions of ringtrace: `tests/link-matrix/versions`, with this version and a copy of it, 0.2.0.

use std::fs;
use std::path::{Path, PathBuf};

/// Makes the program's workspace below `dir`, where what was built lasts from run to run. Returns the workspace.
pub(crate) fn workspace(root: &Path, dir: &Path) -> PathBuf {
    let (newer, both) = (dir.join("newer-ringtrace"), dir.join("both"));
    copy(root, &newer, &|text| text.replace("0_1_0", "0_2_0").replace(r#"version = "0.1.0""#, r#"version = "0.2.0""#));
    let place = |path: &Path| path.to_str().expect("a path in UTF-8").to_string();
    let (older_path, newer_path) = (place(root), place(&newer));
    let fill = |text: String| text.replace("@OLDER@", &older_path).replace("@NEWER@", &newer_path);
    copy(&root.join("tests/link-matrix/versions"), &both, &fill);
    fs::copy(root.join("Cargo.lock"), both.join("Cargo.lock")).expect("a copy of Cargo.lock");
    both
}

/// Copies a directory without what is built or hidden, and puts each text through `change`. What is there already keeps its time:
/// it is not built again.
fn copy(from: &Path, to: &Path, change: &dyn Fn(String) -> String) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let name = entry.file_name();
        let (source, target) = (entry.path(), to.join(&name));
        if source.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                copy(&source, &target, change);
            }
        } else if let Ok(text) = fs::read_to_string(&source) {
            let text = change(text);
            if fs::read_to_string(&target).ok().as_ref() != Some(&text) {
                fs::write(target, text).expect("a file");
            }
        }
    }
}
