//! From the command line to open traces.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use trace_ctf::reader::{Trace, discover};

use crate::failure::Failure;

/// Levels of directories below the one that was named.
const DEPTH: usize = 16;

/// Which traces: what every verb that reads them takes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Place {
    /// Directory of a trace, or one above it; without one, the newest *.ringtrace here. Several are read as one, by time.
    #[arg(value_name = "DIRECTORY")]
    words: Vec<PathBuf>,

    /// Directory of a trace, as an option.
    #[arg(long = "in", value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
}

impl Place {
    /// The words that name no trace, for verbs that take other names too, and where the traces are.
    pub(crate) fn sort(&self) -> (Vec<String>, Self) {
        let (words, others) = self.words.iter().cloned().partition::<Vec<_>, _>(|word| holds_a_trace(word));
        let names = others.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        (names, Self { words, directories: self.directories.clone() })
    }

    /// All words, for verbs that may be about something else.
    pub(crate) fn words(&self) -> Vec<String> {
        self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The directories, or else the newest one here.
    fn all(&self) -> Result<Vec<PathBuf>, Failure> {
        let named: Vec<_> = self.words.iter().chain(&self.directories).cloned().collect();
        if named.is_empty() { Ok(vec![find_newest(Path::new("."))?]) } else { Ok(named) }
    }

    /// The directory, for verbs that write what they make of it into one.
    pub(crate) fn one(&self) -> Result<PathBuf, Failure> {
        let mut all = self.all()?;
        match (all.pop(), all.pop()) {
            (Some(only), None) => Ok(only),
            (last, other) => {
                let [a, b] = [other, last].map(|path| path.unwrap_or_default().display().to_string());
                Err(Failure::Wrong(format!(
                    "{a}, {b}: one directory is wanted\n  name one above both, or run the command for each"
                )))
            }
        }
    }

    /// Opens every trace in or below the directories, each with all of its parts.
    pub(crate) fn open(&self) -> Result<Vec<Trace>, Failure> {
        Ok(Trace::open_all(self.all()?, DEPTH)?)
    }
}

/// Opens every trace in or below a directory, each with all of its parts.
pub(crate) fn traces(directory: &Path) -> Result<Vec<Trace>, Failure> {
    Ok(Trace::open_all([directory], DEPTH)?)
}

/// Opens the directory of every trace, and of every part of one, in or below a directory.
pub(crate) fn parts(directory: &Path) -> Result<Vec<Trace>, Failure> {
    let found = discover(directory, DEPTH)?;
    Ok(found.iter().map(|path| Trace::open(path)).collect::<Result<_, _>>()?)
}

/// Whether a word is a directory in or below which there is a trace.
fn holds_a_trace(word: &Path) -> bool {
    word.is_dir() && discover(word, DEPTH).is_ok()
}

/// What is wrong with a word that looks like the directory of a trace, and holds none; `None`: it does not look like one.
pub(crate) fn why_no_trace(word: &str) -> Option<Failure> {
    let error = discover(Path::new(word), DEPTH).err()?;
    let is_there = !matches!(Path::new(word).metadata(), Err(error) if error.kind() == ErrorKind::NotFound);
    let is_path = is_there || word.contains('/') || word.ends_with(".ringtrace");
    is_path.then(|| error.into())
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
