//! From the command line to open traces.

use std::fs;
use std::path::{Path, PathBuf};

use trace_ctf::reader::{Trace, discover};

use crate::failure::Failure;

/// Levels of directories below the one that was named.
const DEPTH: usize = 16;

/// Opens every trace in or below a directory, each with all of its parts; without one, in or below the newest `*.ringtrace` here.
pub(crate) fn traces(directory: Option<&Path>) -> Result<Vec<Trace>, Failure> {
    let newest;
    let directory = match directory {
        Some(directory) => directory,
        None => {
            newest = find_newest(Path::new("."))?;
            &newest
        }
    };
    Ok(Trace::open_all(directory, DEPTH)?)
}

/// Opens the directory of every trace, and of every part of one, in or below a directory.
pub(crate) fn parts(directory: &Path) -> Result<Vec<Trace>, Failure> {
    let found = discover(directory, DEPTH)?;
    Ok(found.iter().map(|path| Trace::open(path)).collect::<Result<_, _>>()?)
}

fn find_newest(here: &Path) -> Result<PathBuf, Failure> {
    let failure = |error| Failure::NothingHere { directory: here.display().to_string(), error };
    let entries = fs::read_dir(here).map_err(|error| failure(Some(error)))?;
    let candidates = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let is_ours = path.extension().is_some_and(|extension| extension == "ringtrace") && path.is_dir();
        // Names end in the time of their recording, which decides where the file system does not.
        is_ours.then(|| (entry.metadata().and_then(|metadata| metadata.modified()).ok(), path))
    });
    candidates.max().map(|(_, path)| path).ok_or_else(|| failure(None))
}
