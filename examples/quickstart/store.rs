//! The application: a key-value store whose changes go to a write-ahead log before they go to memory.
//!
//! Its tracepoints say what happens, in its own types. No field, no format, no buffer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A log record was written.
#[ringtrace::tracepoint]
pub fn logged(operation: Operation, key: &str, value: Option<&[u8]>);

/// A key was looked up.
#[ringtrace::tracepoint]
pub fn looked_up(key: &str, found: Option<&[u8]>);

/// The log was written to its file.
#[ringtrace::tracepoint]
pub fn flushed(records: u32, took: Duration);

/// A store was opened.
#[ringtrace::tracepoint]
pub fn opened(path: &Path, keys: usize);

/// What a log record does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Sets the value of a key.
    Put,
    /// Removes a key.
    Remove,
}

/// A store.
pub struct Store {
    log: Mutex<Log>,
    values: Mutex<HashMap<String, Vec<u8>>>,
}

struct Log {
    file: BufWriter<File>,
    unflushed: u32,
    batch: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the store in `directory`, replaying its log; `batch` records are written at once.
    pub fn open(directory: &Path, batch: u32) -> io::Result<Store> {
        let path = directory.join("log");
        let file = File::options().read(true).append(true).create(true).open(&path)?;
        let values = replay(&mut BufReader::new(&file))?;
        opened(&path, values.len());
        let log = Log { file: BufWriter::with_capacity(1 << 20, file), unflushed: 0, batch };
        Ok(Store { log: Mutex::new(log), values: Mutex::new(values) })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        lock(&self.values).len()
    }

    /// Looks a key up.
    pub fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let found = lock(&self.values).get(key).cloned();
        looked_up(key, found.as_deref());
        Ok(found)
    }

    /// Sets the value of a key.
    pub fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        let mut log = lock(&self.log);
        log.append(Operation::Put, key, Some(value))?;
        lock(&self.values).insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Removes a key.
    pub fn remove(&self, key: &str) -> io::Result<()> {
        let mut log = lock(&self.log);
        log.append(Operation::Remove, key, None)?;
        lock(&self.values).remove(key);
        Ok(())
    }

    /// Writes what is buffered of the log.
    pub fn flush(&self) -> io::Result<()> {
        lock(&self.log).flush()
    }
}

impl Log {
    fn append(&mut self, operation: Operation, key: &str, value: Option<&[u8]>) -> io::Result<()> {
        self.file.write_all(&[operation as u8, u8::from(value.is_some())])?;
        for part in [key.as_bytes(), value.unwrap_or_default()] {
            self.file.write_all(&(part.len() as u32).to_le_bytes())?;
            self.file.write_all(part)?;
        }
        logged(operation, key, value);
        self.unflushed += 1;
        if self.unflushed >= self.batch { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        self.file.flush()?;
        // `begin.elapsed()` is a clock read of its own: only when somebody listens.
        ringtrace::fire!(flushed(self.unflushed, begin.elapsed()));
        self.unflushed = 0;
        Ok(())
    }
}

fn replay(log: &mut impl Read) -> io::Result<HashMap<String, Vec<u8>>> {
    let mut values = HashMap::new();
    let mut head = [0; 2];
    while log.read(&mut head[..1])? == 1 {
        log.read_exact(&mut head[1..])?;
        let mut part = || {
            let mut length = [0; 4];
            log.read_exact(&mut length)?;
            let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
            log.read_exact(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        let key = String::from_utf8_lossy(&part()?).into_owned();
        let value = part()?;
        match head[0] {
            0 => values.insert(key, value),
            _ => values.remove(&key),
        };
    }
    Ok(values)
}
