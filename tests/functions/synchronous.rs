use super::{common, fields, names, recorded};
use ringtrace::{Field, tracepoint};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

struct NoField;

#[tracepoint]
fn parse(text: &str, base: u32, _how: NoField) -> Result<u64, std::num::ParseIntError> {
    let value = u64::from_str_radix(text, base)?;
    if value == 7 {
        return Ok(0);
    }
    assert!(value != 13, "unlucky");
    Ok(value)
}

#[test]
fn a_function_is_recorded_however_it_is_left() {
    let _alone = common::alone();
    let contents = recorded("functions:synchronous::parse", || {
        assert_eq!(parse("10", 16, NoField), Ok(16));
        assert_eq!(parse("7", 10, NoField), Ok(0));
        assert!(parse("x", 10, NoField).is_err());
        assert!(catch_unwind(|| parse("13", 10, NoField)).is_err());
    });
    let pair = ["synchronous::parse::entry", "synchronous::parse::exit"];
    assert_eq!(names(&contents), pair.repeat(4));
    assert_eq!(fields(&contents, "parse::entry"), ["text=10 base=16", "text=7 base=10", "text=x base=10", "text=13 base=10"]);
    let outcomes = contents.values("functions:synchronous::parse::exit", "outcome");
    let expected = ["returned", "returned", "returned", "panicked"];
    assert!(outcomes.iter().zip(expected).all(|(o, e)| o.contains(e)) && outcomes.len() == 4, "{outcomes:?}");
}

/// A pattern that names a function takes, or leaves out, all that tells of it.
#[test]
fn patterns_name_functions() {
    let _alone = common::alone();
    let run = || {
        assert_eq!(parse("10", 16, NoField), Ok(16));
        assert_eq!(*largest(&mut [1, 5, 3], 0), 5);
        assert_eq!(words("a b").count(), 2);
    };
    let pair = ["synchronous::parse::entry", "synchronous::parse::exit"];
    let exits = ["synchronous::parse::exit", "synchronous::largest::exit", "synchronous::words::exit"];
    for (rules, expected) in [
        ("*ous::parse", &pair[..]),
        ("functions:synchronous::*; !*::largest; !*wor?s", &pair),
        ("functions:synchronous::*; !synchronous::largest; !functions:synchronous::words", &pair),
        ("functions:synchronous::*; !functions:synchronous::*::entry", &exits),
    ] {
        assert_eq!(names(&recorded(rules, run)), expected, "{rules}");
    }
}

#[tracepoint(result)]
fn largest<'v>(values: &'v mut [u32], from: usize) -> &'v mut u32 {
    let values = &mut values[from..];
    let mut at = 0;
    for i in 0..values.len() {
        if values[i] > values[at] {
            at = i;
        }
    }
    &mut values[at]
}

#[tracepoint(result = debug, skip(text))]
fn words(text: &str) -> impl Iterator<Item = &str> + std::fmt::Debug {
    text.split(' ')
}

#[test]
fn results_are_recorded_when_asked_for() {
    let _alone = common::alone();
    let contents = recorded("functions:synchronous::*", || {
        let mut values = [1, 5, 3];
        *largest(&mut values, 1) = 9;
        assert_eq!(values, [1, 9, 3]);
        assert!(catch_unwind(AssertUnwindSafe(|| *largest(&mut [0; 2], 3))).is_err());
        assert_eq!(words("a b").count(), 2);
    });
    let results = contents.values("functions:synchronous::largest::exit", "result");
    assert!(results.len() == 2 && results[0].contains('5') && !results[1].contains('5'), "{results:?}");
    let results = contents.values("functions:synchronous::words::exit", "result");
    assert!(results[0].contains("SplitInternal") || results[0].contains("Split"), "{results:?}");
}

#[tracepoint]
fn generic<T: Field + Copy, U: Display>(known: T, unknown: U, opaque: impl Display, more: impl Field) -> String {
    let _ = (known, more);
    format!("{unknown}{opaque}")
}

#[tracepoint]
unsafe fn unchecked(values: &[u32], at: usize) -> u32 {
    // SAFETY: the caller's duty.
    unsafe { *values.get_unchecked(at) }
}

#[test]
fn generic_functions_record_what_is_known_to_be_a_field() {
    let _alone = common::alone();
    let contents = recorded("functions:synchronous::generic; functions:synchronous::unchecked", || {
        assert_eq!(generic(1u64, 'a', "b", 2u8), "ab");
        assert_eq!(generic("one", 2, 3, true), "23");
        // SAFETY: there are three.
        assert_eq!(unsafe { unchecked(&[1, 2, 3], 2) }, 3);
    });
    let entries = fields(&contents, "generic::entry");
    assert!(entries[0] == "known=1 more=2" && entries[1].starts_with("known=one more="), "{entries:?}");
    assert_eq!(contents.numbers("functions:synchronous::unchecked::entry", "at"), [2]);
    let probes = || ringtrace::registry::probes().filter(|p| p.name().to_string().ends_with("::generic::entry"));
    assert_eq!(probes().count(), 2, "one class for each kind of arguments");
    let skipped: Vec<_> = probes().flat_map(|p| p.skipped).map(|f| f.name).collect();
    assert_eq!(skipped, ["unknown", "opaque", "unknown", "opaque"]);
}

struct Cart {
    items: Vec<(u32, u64)>,
}

#[tracepoint]
impl Cart {
    const fn new() -> Cart {
        Cart { items: Vec::new() }
    }

    #[tracepoint(result, fields(id, count = self.items.len(), price = ?price))]
    fn add(&mut self, id: u32, price: Option<u64>) -> Option<u64> {
        let price = price?;
        self.items.push((id, price));
        Some(self.total())
    }

    fn total(&self) -> u64 {
        self.items.iter().map(|(_, price)| self.taxed(*price)).sum()
    }

    #[tracepoint(off)]
    fn taxed(&self, price: u64) -> u64 {
        price + price / 10
    }
}

impl Cart {
    #[tracepoint(name = "functions:Cart::clear", level = Debug)]
    fn clear(&mut self) {
        self.items.clear();
    }
}

#[tracepoint]
mod shop {
    pub(super) fn open(at: u16) -> u16 {
        inner::check(at) + 1
    }

    mod inner {
        pub(crate) fn check(at: u16) -> u16 {
            at
        }
    }

    pub(super) trait Visit {
        fn visits(&self) -> u32 {
            1
        }
    }

    impl Visit for super::Cart {}
}

#[test]
fn all_functions_of_an_impl_block_or_a_module() {
    use shop::Visit;
    let _alone = common::alone();
    let contents = recorded("functions:*", || {
        let mut cart = Cart::new();
        assert_eq!(cart.add(3, Some(20)), Some(22));
        assert_eq!(cart.add(4, None), None);
        cart.clear();
        assert_eq!(shop::open(80), 81);
        assert_eq!(cart.visits(), 1);
    });
    let expected = [
        "synchronous::Cart::add::entry",
        "synchronous::Cart::total::entry",
        "synchronous::Cart::total::exit",
        "synchronous::Cart::add::exit",
        "synchronous::Cart::add::entry",
        "synchronous::Cart::add::exit",
        "Cart::clear::entry",
        "Cart::clear::exit",
        "synchronous::shop::open::entry",
        "synchronous::shop::inner::check::entry",
        "synchronous::shop::inner::check::exit",
        "synchronous::shop::open::exit",
        "synchronous::shop::Visit::visits::entry",
        "synchronous::shop::Visit::visits::exit",
    ];
    assert_eq!(names(&contents), expected);
    assert_eq!(fields(&contents, "Cart::add::entry"), ["id=3 count=0 price=Some(20)", "id=4 count=1 price=None"]);
}

#[tracepoint]
fn waits(long: bool) {
    if long {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_exit_has_the_duration_so_that_slow_calls_can_be_chosen() {
    let _alone = common::alone();
    let contents = recorded("functions:*waits::exit if duration > 10000000", || {
        for i in 0..100 {
            waits(i == 50);
        }
    });
    // Where the machine is busy, another may take long too.
    let durations = contents.numbers("functions:synchronous::waits::exit", "duration");
    assert!(!durations.is_empty() && durations.iter().all(|d| *d > 10_000_000), "{durations:?}");
    assert!(contents.counts.keys().all(|name| name.ends_with("exit")));
}

#[test]
fn a_call_that_began_before_the_session_has_no_exit() {
    #[tracepoint]
    fn outer(inside: impl FnOnce()) {
        inside();
    }
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace");
    let mut session = None;
    outer(|| session = Some(ringtrace::Session::builder("late").enable("functions:*").output(&path).start().expect("it starts")));
    outer(|| {});
    session.expect("made above").stop().expect("it stops");
    assert_eq!(common::read_by_both(&path).events(), 2);
}

/// As a storage engine has them: all of the user's data, in the arguments of its functions.
#[tracepoint]
fn put(key: &[u8], value: Vec<u16>, page: &[u8; 40], small: [u8; 4], names: &[&str], none: Option<&[u8]>) {
    std::hint::black_box((key, value, page, small, names, none));
}

#[tracepoint(fields(key = &key[..2], whole = value))]
fn chosen(key: &[u8], value: &[u8]) {
    std::hint::black_box((key, value));
}

#[test]
fn slices_that_nobody_chose_are_recorded_by_their_length_and_their_beginning() {
    let _alone = common::alone();
    let names = ["a text of twenty-two ch", "and another"];
    let contents = recorded("functions:synchronous::put; functions:synchronous::chosen", || {
        put(&[7; 5000], vec![1; 100], &[2; 40], [3; 4], &names, Some(&[4; 3]));
        put(&[], vec![], &[2; 40], [3; 4], &[], None);
        chosen(&[5; 100], &[6; 100]);
    });
    let entries = fields(&contents, "put::entry");
    let elements = |number: usize, element: u64| {
        let elements = vec![format!("Unsigned({element})"); number];
        format!("Array([{}])", elements.join(", "))
    };
    let short = |field: &str, length: usize, elements: String| {
        format!("{field}=Structure([(\"length\", Unsigned({length})), (\"first\", {elements})])")
    };
    for expected in [
        short("key", 5000, elements(32, 7)),
        short("value", 100, elements(16, 1)),
        short("page", 40, elements(32, 2)),
        format!("small={}", elements(4, 3)),
        format!("none=Variant(\"some\", {})", short("", 3, elements(3, 4)).trim_start_matches('=')),
    ] {
        assert!(entries[0].contains(&expected), "no {expected}: {}", entries[0]);
    }
    // Texts have to find room in as many bytes.
    assert!(
        entries[0].contains("Unsigned(2)), (\"first\", Array([") && entries[0].contains("a text of twenty-two ch"),
        "{}",
        entries[0]
    );
    assert!(!entries[0].contains("and another"), "{}", entries[0]);
    assert!(entries[1].contains(&short("key", 0, elements(0, 0))), "{}", entries[1]);
    let chosen = fields(&contents, "chosen::entry");
    assert_eq!(chosen, [format!("key={} whole={}", elements(2, 5), elements(100, 6))]);
}
