//! An order service on tokio: traced functions, sync and async, with everything that can happen to them.
//!
//! Customers place orders; each order reserves stock, is paid for at a bank that may be slow, fail or panic, and is packed. What
//! takes too long is cancelled. The program keeps a ledger of its own calls, which is how the tests know that the trace is right:
//! `ringtrace tree` of the trace shows the calls of the ledger, with the same parents, outcomes and, within each other, times.
//!
//! ```sh
//! cargo run --example orders -- DIRECTORY    # writes DIRECTORY/trace and DIRECTORY/ledger.jsonl; without it, here
//! ringtrace tree DIRECTORY/trace
//! ```

use ringtrace::Session;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// What the program itself counts: each call, with its parent, its time and how it ended.
mod ledger {
    use super::{Mutex, OnceLock, PoisonError};
    use std::io::{self, Write};

    /// A call that has a place in the ledger.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Place(usize);

    /// A line of the ledger.
    #[derive(Debug)]
    struct Line {
        parent: Option<usize>,
        name: &'static str,
        key: u64,
        begin_ns: u64,
        end_ns: u64,
        outcome: &'static str,
    }

    fn lines() -> std::sync::MutexGuard<'static, Vec<Line>> {
        static LINES: OnceLock<Mutex<Vec<Line>>> = OnceLock::new();
        LINES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns() -> u64 {
        ringtrace::clock::Clock::process().now_ns()
    }

    /// A call that is running; it counts as cancelled, or as panicked, if it is dropped before [`done`](Call::done).
    #[derive(Debug)]
    pub(super) struct Call(usize);

    impl Call {
        /// Begins a call inside of `parent`.
        pub(super) fn begin(parent: Option<Place>, name: &'static str, key: u64) -> Call {
            let mut lines = lines();
            let parent = parent.map(|Place(number)| number);
            lines.push(Line { parent, name, key, begin_ns: now_ns(), end_ns: 0, outcome: "" });
            Call(lines.len() - 1)
        }

        /// The place of what this calls.
        pub(super) fn place(&self) -> Option<Place> {
            Some(Place(self.0))
        }

        /// The call returns.
        pub(super) fn done(self) {
            self.end("returned");
        }

        fn end(&self, outcome: &'static str) {
            let line = &mut lines()[self.0];
            if line.outcome.is_empty() {
                (line.end_ns, line.outcome) = (now_ns(), outcome);
            }
        }
    }

    impl Drop for Call {
        fn drop(&mut self) {
            self.end(if std::thread::panicking() { "panicked" } else { "cancelled" });
        }
    }

    /// Writes the ledger, a JSON object in each line.
    pub(super) fn write(out: &mut impl Write) -> io::Result<()> {
        for (number, line) in lines().iter().enumerate() {
            let Line { parent, name, key, begin_ns, end_ns, outcome } = line;
            let parent = parent.map_or("null".to_owned(), |parent| parent.to_string());
            writeln!(
                out,
                "{{\"number\":{number},\"parent\":{parent},\"name\":\"{name}\",\"key\":{key},\"begin_ns\":{begin_ns},\
                 \"end_ns\":{end_ns},\"outcome\":\"{outcome}\"}}"
            )?;
        }
        Ok(())
    }
}

use ledger::{Call, Place};

/// Why an order failed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    SoldOut { item: u64 },
    Declined { by: Bank },
    TooSlow(&'static str),
    Crashed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::SoldOut { item } => write!(f, "item {item} is sold out"),
            Failure::Declined { by } => write!(f, "{by:?} declined"),
            Failure::TooSlow(what) => write!(f, "{what} took too long"),
            Failure::Crashed => f.write_str("a task crashed"),
        }
    }
}

impl std::error::Error for Failure {}

/// Who pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ringtrace::Field)]
enum Bank {
    Quick,
    Slow,
    Strict,
    Broken,
}

impl Bank {
    fn of(customer: u64) -> Bank {
        match customer % 8 {
            3 => Bank::Slow,
            5 => Bank::Strict,
            7 => Bank::Broken,
            _ => Bank::Quick,
        }
    }
}

/// What a customer wants.
#[derive(Clone, Debug)]
struct Order {
    id: u64,
    customer: u64,
    items: Vec<(u64, u32)>,
}

impl Order {
    /// The order of this number: always the same one.
    fn of(id: u64) -> Order {
        let items = (0..1 + id % 3).map(|n| ((id * 7 + n * 13) % 20, 1 + (id % 2) as u32)).collect();
        Order { id, customer: id * 5 % 16, items }
    }
}

/// What is in stock.
#[derive(Debug)]
struct Stock {
    items: Mutex<HashMap<u64, u32>>,
    doors: Semaphore,
}

/// Items that are held for an order; they go back when it fails.
#[derive(Debug)]
struct Reserved {
    stock: Arc<Stock>,
    items: Vec<(u64, u32)>,
    is_sold: bool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_sold {
            self.stock.put_back(&self.items);
        }
    }
}

#[ringtrace::tracepoint]
impl Stock {
    /// So many of each item.
    #[tracepoint(off)]
    fn new(of_each: u32) -> Stock {
        Stock { items: Mutex::new((0..20).map(|item| (item, of_each)).collect()), doors: Semaphore::new(2) }
    }

    /// Takes items for an order.
    #[tracepoint(fields(order, items = items.len()))]
    async fn reserve(self: Arc<Self>, parent: Option<Place>, order: u64, items: Vec<(u64, u32)>) -> Result<Reserved, Failure> {
        let call = Call::begin(parent, "Stock::reserve", order);
        let result = self.take_all(call.place(), order, items).await;
        call.done();
        result
    }

    /// Takes them one by one, at one of the doors.
    #[tracepoint(fields(order))]
    async fn take_all(self: Arc<Self>, parent: Option<Place>, order: u64, items: Vec<(u64, u32)>) -> Result<Reserved, Failure> {
        let call = Call::begin(parent, "Stock::take_all", order);
        let door = self.doors.acquire().await;
        let mut reserved = Reserved { stock: self.clone(), items: Vec::new(), is_sold: false };
        for (item, count) in items {
            tokio::task::yield_now().await;
            if let Err(failure) = self.take(call.place(), item, count) {
                call.done();
                return Err(failure);
            }
            reserved.items.push((item, count));
        }
        drop(door);
        call.done();
        Ok(reserved)
    }

    /// Takes some of one item.
    #[tracepoint(result = debug, fields(item, count))]
    fn take(&self, parent: Option<Place>, item: u64, count: u32) -> Result<u32, Failure> {
        let call = Call::begin(parent, "Stock::take", item);
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let there = items.get_mut(&item).filter(|there| **there >= count);
        let Some(there) = there else {
            call.done();
            return Err(Failure::SoldOut { item });
        };
        *there -= count;
        let left = *there;
        call.done();
        Ok(left)
    }

    /// Gives back what was taken.
    #[tracepoint(off)]
    fn put_back(&self, reserved: &[(u64, u32)]) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        for (item, count) in reserved {
            *items.entry(*item).or_default() += count;
        }
    }

    /// How many are left of all.
    #[tracepoint(off)]
    fn left(&self) -> u32 {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// What banks do.
#[ringtrace::tracepoint(level = Debug)]
mod bank {
    use super::{Bank, Call, Failure, Place};
    use std::time::Duration;

    /// Asks a bank for money.
    pub(super) async fn pay(bank: Bank, parent: Option<Place>, order: u64, cents: u64) -> Result<u64, Failure> {
        let call = Call::begin(parent, "bank::pay", order);
        let receipt = match bank {
            Bank::Quick => transfer(call.place(), order, cents).await,
            Bank::Slow => {
                connect(call.place(), order, 3600).await;
                transfer(call.place(), order, cents).await
            }
            Bank::Strict => {
                connect(call.place(), order, 0).await;
                if !is_trusted(call.place(), order, cents) {
                    call.done();
                    return Err(Failure::Declined { by: bank });
                }
                transfer(call.place(), order, cents).await
            }
            Bank::Broken => broken(call.place(), order),
        };
        call.done();
        Ok(receipt)
    }

    /// Waits for the line.
    async fn connect(parent: Option<Place>, order: u64, seconds: u64) {
        let call = Call::begin(parent, "bank::connect", order);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        call.done();
    }

    /// Moves the money.
    async fn transfer(parent: Option<Place>, order: u64, cents: u64) -> u64 {
        let call = Call::begin(parent, "bank::transfer", order);
        for _ in 0..cents % 4 {
            tokio::task::yield_now().await;
        }
        let receipt = checksum(call.place(), order, cents, 3);
        call.done();
        receipt
    }

    /// Whether a strict bank pays.
    fn is_trusted(parent: Option<Place>, order: u64, cents: u64) -> bool {
        let call = Call::begin(parent, "bank::is_trusted", order);
        let is_trusted = checksum(call.place(), order, cents, 1) % 2 == 0;
        call.done();
        is_trusted
    }

    /// A number of a receipt, step by step.
    fn checksum(parent: Option<Place>, order: u64, cents: u64, steps: u32) -> u64 {
        let call = Call::begin(parent, "bank::checksum", order);
        let value = match steps {
            0 => order,
            _ => checksum(call.place(), order, cents, steps - 1).wrapping_mul(31).wrapping_add(cents),
        };
        call.done();
        value
    }

    /// What a broken bank does.
    fn broken(parent: Option<Place>, order: u64) -> u64 {
        let _call = Call::begin(parent, "bank::broken", order);
        panic!("the bank of order {order} is broken");
    }
}

/// Sends parcels.
#[derive(Debug)]
struct Warehouse {
    parcels: mpsc::Sender<Parcel>,
}

/// What is packed.
#[derive(Debug)]
struct Parcel {
    order: u64,
    weight: u64,
    packed: oneshot::Sender<u64>,
}

#[ringtrace::tracepoint]
impl Warehouse {
    /// Opens a warehouse with a packer.
    #[tracepoint(off)]
    fn open() -> (Warehouse, tokio::task::JoinHandle<u64>) {
        let (parcels, queue) = mpsc::channel(4);
        (Warehouse { parcels }, tokio::spawn(Warehouse::packer(queue)))
    }

    /// Packs until nobody sends any more.
    #[tracepoint(skip(queue))]
    async fn packer(mut queue: mpsc::Receiver<Parcel>) -> u64 {
        let call = Call::begin(None, "Warehouse::packer", 0);
        let mut count = 0;
        while let Some(parcel) = queue.recv().await {
            Warehouse::pack(call.place(), parcel);
            count += 1;
        }
        call.done();
        count
    }

    /// Packs one.
    #[tracepoint(fields(order = parcel.order, weight = parcel.weight))]
    fn pack(parent: Option<Place>, parcel: Parcel) {
        let call = Call::begin(parent, "Warehouse::pack", parcel.order);
        // Whoever gave up does not mind.
        let _ = parcel.packed.send(parcel.weight * 2);
        call.done();
    }

    /// Sends an order, and waits until it is packed.
    #[tracepoint(fields(order), result = debug)]
    async fn ship(&self, parent: Option<Place>, order: u64, weight: u64) -> Result<u64, Failure> {
        let call = Call::begin(parent, "Warehouse::ship", order);
        let (packed, answer) = oneshot::channel();
        let sent = self.parcels.send(Parcel { order, weight, packed }).await;
        let result = match sent {
            Ok(()) => answer.await.map_err(|_| Failure::Crashed),
            Err(_) => Err(Failure::Crashed),
        };
        call.done();
        result
    }
}

/// Everything together.
#[derive(Debug)]
struct Shop {
    stock: Arc<Stock>,
    warehouse: Warehouse,
    sold: AtomicU64,
}

#[ringtrace::tracepoint]
impl Shop {
    /// Handles an order, in a task of its own.
    #[tracepoint(fields(order = order.id, customer = order.customer), result = debug)]
    async fn handle(self: Arc<Self>, order: Order) -> Result<u64, Failure> {
        let call = Call::begin(None, "Shop::handle", order.id);
        let result = self.process(call.place(), &order).await;
        call.done();
        result
    }

    /// Reserves, is paid and ships.
    #[tracepoint(fields(order = order.id))]
    async fn process(&self, parent: Option<Place>, order: &Order) -> Result<u64, Failure> {
        let call = Call::begin(parent, "Shop::process", order.id);
        let result = self.steps(call.place(), order).await;
        call.done();
        result
    }

    /// The steps, each of which may fail.
    #[tracepoint(off)]
    async fn steps(&self, parent: Option<Place>, order: &Order) -> Result<u64, Failure> {
        let mut reserved = self.stock.clone().reserve(parent, order.id, order.items.clone()).await?;
        let cents = price(parent, order);
        let paid = bank::pay(Bank::of(order.customer), parent, order.id, cents);
        // A bank that does not answer at once is not waited for: its future is dropped.
        let Some(receipt) = within_turns(64, paid).await else { return Err(Failure::TooSlow("the bank")) };
        let receipt = receipt?;
        let weight = order.items.iter().map(|(_, count)| u64::from(*count)).sum();
        self.warehouse.ship(parent, order.id, weight).await?;
        reserved.is_sold = true;
        self.sold.fetch_add(1, Ordering::Relaxed);
        Ok(receipt)
    }
}

/// Waits for a future, for at most so many turns of the task.
async fn within_turns<F: Future>(mut turns: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if turns == 0 => Poll::Ready(None),
        Poll::Pending => {
            turns -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// What an order costs, in cents.
#[ringtrace::tracepoint(fields(order = order.id), result)]
fn price(parent: Option<Place>, order: &Order) -> u64 {
    let call = Call::begin(parent, "price", order.id);
    let sum = order.items.iter().map(|(item, count)| discounted(call.place(), *item, u64::from(*count))).sum();
    call.done();
    sum
}

/// What some of one item cost.
#[ringtrace::tracepoint]
fn discounted(parent: Option<Place>, item: u64, count: u64) -> u64 {
    let call = Call::begin(parent, "discounted", item);
    let price = (100 + item) * count;
    call.done();
    if count > 1 {
        return price * 9 / 10;
    }
    price
}

/// What came of all orders.
#[derive(Debug, Default)]
struct Summary {
    sold: u64,
    failed: HashMap<String, u64>,
}

/// Places orders, each as a task.
async fn run(orders: u64) -> Summary {
    let (warehouse, packer) = Warehouse::open();
    let stock = Arc::new(Stock::new(8));
    let shop = Arc::new(Shop { stock: stock.clone(), warehouse, sold: AtomicU64::new(0) });
    let tasks: Vec<_> = (0..orders).map(|id| tokio::spawn(shop.clone().handle(Order::of(id)))).collect();
    let mut summary = Summary::default();
    for (id, task) in tasks.into_iter().enumerate() {
        // Some customers change their minds.
        if id % 11 == 10 {
            task.abort();
        }
        let result = match task.await {
            Ok(result) => result.map(drop).map_err(|failure| failure.to_string()),
            Err(error) if error.is_cancelled() => Err("the customer changed their mind".to_owned()),
            Err(_) => Err(Failure::Crashed.to_string()),
        };
        match result {
            Ok(()) => summary.sold += 1,
            Err(why) => *summary.failed.entry(why).or_default() += 1,
        }
    }
    assert_eq!(summary.sold, shop.sold.load(Ordering::Relaxed));
    drop(shop);
    let packed = packer.await.unwrap_or_default();
    assert!(packed >= summary.sold, "{packed} were packed");
    assert!(stock.left() > 0);
    summary
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    // Panics of the broken bank are part of the story.
    std::panic::set_hook(Box::new(|_| ()));
    let session = Session::builder("orders").enable("orders:*").output(directory.join("trace")).start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let summary = runtime.block_on(run(60));
    runtime.shutdown_timeout(Duration::from_secs(60));
    let statistics = session.stop()?;
    ledger::write(&mut std::io::BufWriter::new(std::fs::File::create(directory.join("ledger.jsonl"))?))?;
    println!("{} orders were sold", summary.sold);
    let mut failed: Vec<_> = summary.failed.into_iter().collect();
    failed.sort();
    for (why, count) in failed {
        println!("{count:>5} not: {why}");
    }
    println!("{statistics}");
    Ok(())
}
