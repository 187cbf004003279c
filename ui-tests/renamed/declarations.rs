extern crate rt as ringtrace;

/// Why a page left.
#[derive(Clone, Copy, Debug, ringtrace::Field)]
pub enum Reason {
    /// Least recently used.
    Lru,
    /// No room.
    Full,
}

/// A page left the cache.
#[ringtrace::tracepoint]
pub fn evicted<'a>(page: &'a str, old: Option<&'a str>, reason: Reason);

/// A request was answered.
#[ringtrace::tracepoint(record, level = Debug)]
pub fn answered(path: &str, status: u16);

/// What became of a page.
#[derive(Debug, ringtrace::Field)]
pub enum Change<'a> {
    /// It is gone.
    Gone,
    /// It moved.
    Moved(&'a str),
}

/// A page left the cache.
#[derive(Debug, ringtrace::Event)]
pub struct Evicted<'a> {
    #[field(debug)]
    old: Option<&'a str>,
    #[field(sensitive)]
    change: Change<'a>,
    reason: Reason,
}

#[ringtrace::probe(evicted, level = Info)]
fn record_evicted<'a>(page: &'a str, old: Option<&'a str>, reason: Reason) -> Option<Evicted<'a>> {
    let change = if page.is_empty() { Change::Gone } else { Change::Moved(page) };
    Some(Evicted { old, change, reason })
}

/// Evicts.
pub fn evict(page: &str) {
    evicted(page, None, Reason::Lru);
    ringtrace::fire!(evicted(page, Some("old"), Reason::Full));
    rt::fire!(crate::answered(page, 200));
}

/// Parses.
#[ringtrace::tracepoint(result = debug)]
pub fn parse(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number: u32 = text.parse()?;
    rt::event!("renamed:parsed", number);
    Ok(number)
}

/// A cart.
#[derive(Debug)]
pub struct Cart;

#[ringtrace::tracepoint]
impl Cart {
    /// Waits.
    pub async fn wait(&self, times: u32) -> u32 {
        let _span = rt::span!("renamed:wait", times);
        times
    }
}
