//! Random filters on random events: a compiled program says what a plain evaluator of the tree says.
//!
//! The tree is the test's own: it is written out with the parentheses that Rust's precedence needs, so that the parser is
//! tested too.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cmp::Ordering;
use trace_filter::{Comparison, Expression, Field, Kind, Label, Program, Record, Scope, Step, Value};

const LABELS: [(&str, i128, i128); 4] = [("Lru", 0, 0), ("Capacity", 1, 2), ("Manual", -3, -1), ("Late", 2, 5)];

/// An event: what a filter can ask for.
#[derive(Clone, Debug)]
struct Event {
    unsigned: u64,
    signed: i64,
    ratio: f64,
    dirty: bool,
    path: String,
    reason: i8,
    owner: Option<i32>,
    page: Option<(u32, String)>,
    /// `Circle { radius }` or `Point`
    shape: Option<f32>,
    vtid: u32,
}

fn scope() -> Scope {
    let labels = LABELS.iter().map(|(name, low, high)| Label { name: (*name).into(), low: *low, high: *high }).collect();
    let page = Kind::Structure(vec![Field::new("id", Kind::Integer), Field::new("file", Kind::Text)]);
    let circle = Kind::Structure(vec![Field::new("radius", Kind::Float)]);
    let shape = Kind::Variant(vec![Field::new("Point", Kind::Structure(vec![])), Field::new("Circle", circle)]);
    Scope::new(
        [
            Field::new("unsigned", Kind::Integer),
            Field::new("signed", Kind::Integer),
            Field::new("ratio", Kind::Float),
            Field::new("dirty", Kind::Bool),
            Field::new("path", Kind::Text),
            Field::new("reason", Kind::Enumeration(labels)),
            Field::new("owner", Kind::Optional(Box::new(Kind::Integer))),
            Field::new("page", Kind::Optional(Box::new(page))),
            Field::new("shape", shape),
        ],
        [Field::new("vtid", Kind::Integer)],
    )
}

struct Inputs<'e>(&'e Event, &'e Program);

impl Record for Inputs<'_> {
    fn value(&self, input: usize) -> Value<'_> {
        use Step::{Field, Option, Presence};
        let Inputs(event, program) = self;
        let input = &program.inputs()[input];
        let integer = |value: std::option::Option<i128>| value.map_or(Value::Missing, Value::Integer);
        if input.context {
            assert_eq!(input.path, [Field(0)]);
            return Value::Integer(event.vtid.into());
        }
        match input.path.as_slice() {
            [Field(0)] => Value::Integer(event.unsigned.into()),
            [Field(1)] => Value::Integer(event.signed.into()),
            [Field(2)] => Value::Float(event.ratio),
            [Field(3)] => Value::Integer(event.dirty.into()),
            [Field(4)] => Value::Text(event.path.as_bytes()),
            [Field(5)] => Value::Integer(event.reason.into()),
            [Field(6)] => integer(event.owner.map(i128::from)),
            [Field(6), Presence] => integer(event.owner.map(|_| 1)),
            [Field(7), Presence] => integer(event.page.as_ref().map(|_| 1)),
            [Field(7), Field(0)] => integer(event.page.as_ref().map(|page| page.0.into())),
            [Field(7), Field(1)] => event.page.as_ref().map_or(Value::Missing, |page| Value::Text(page.1.as_bytes())),
            [Field(8)] => Value::Integer(event.shape.is_some().into()),
            [Field(8), Option(1), Field(0)] => event.shape.map_or(Value::Missing, |radius| Value::Float(radius.into())),
            other => panic!("no such path: {other:?}"),
        }
    }
}

/// A condition. Operators are spelled as in filters.
#[derive(Clone, Debug)]
enum Condition {
    Bool(bool),
    Dirty,
    Has(&'static str),
    Numbers(&'static str, Number, Number),
    Texts(&'static str, Text, Text),
    Matches(&'static str, Text, String),
    Named(&'static str, &'static str),
    NameMatches(&'static str, &'static str),
    Bits(Number, Number),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Debug)]
enum Number {
    Integer(i128),
    Float(f64),
    Path(&'static str),
    Negate(Box<Number>),
    Binary(&'static str, Box<Number>, Box<Number>),
}

#[derive(Clone, Debug)]
enum Text {
    Literal(String),
    Path(&'static str),
}

/// What a number is; `None`: missing.
#[derive(Clone, Copy, Debug)]
enum Known {
    Integer(i128),
    Float(f64),
}

impl Event {
    fn number(&self, path: &str) -> Option<Known> {
        Some(match path {
            "unsigned" => Known::Integer(self.unsigned.into()),
            "signed" => Known::Integer(self.signed.into()),
            "ratio" => Known::Float(self.ratio),
            "reason" => Known::Integer(self.reason.into()),
            "owner" => Known::Integer(self.owner?.into()),
            "page.id" => Known::Integer(self.page.as_ref()?.0.into()),
            "shape" => Known::Integer(i128::from(self.shape.is_some())),
            "shape.Circle.radius" => Known::Float(self.shape?.into()),
            "$ctx.vtid" => Known::Integer(self.vtid.into()),
            _ => panic!("{path}"),
        })
    }

    fn text(&self, path: &str) -> Option<&str> {
        match path {
            "path" => Some(&self.path),
            "page.file" => self.page.as_ref().map(|page| page.1.as_str()),
            _ => panic!("{path}"),
        }
    }
}

impl Number {
    fn value(&self, event: &Event) -> Option<Known> {
        use Known::{Float, Integer};
        let float = |known| match known {
            Integer(value) => value as f64,
            Float(value) => value,
        };
        Some(match self {
            Number::Integer(value) => Integer(*value),
            Number::Float(value) => Float(*value),
            Number::Path(path) => event.number(path)?,
            Number::Negate(inner) => match inner.value(event)? {
                Integer(value) => Integer(value.checked_neg()?),
                Float(value) => Float(-value),
            },
            Number::Binary(operator, a, b) => match (a.value(event)?, b.value(event)?) {
                (Integer(a), Integer(b)) => Integer(match *operator {
                    "+" => a.checked_add(b)?,
                    "-" => a.checked_sub(b)?,
                    "*" => a.checked_mul(b)?,
                    "/" => a.checked_div(b)?,
                    "%" => a.checked_rem(b)?,
                    "&" => a & b,
                    "|" => a | b,
                    "^" => a ^ b,
                    // Without a shift: a power of two, and rounding down.
                    "<<" if a == 0 && (0..128).contains(&b) => 0,
                    "<<" if (0..127).contains(&b) => a.checked_mul(2i128.pow(b as u32))?,
                    "<<" if b == 127 && a == -1 => i128::MIN,
                    ">>" if (0..127).contains(&b) => a.div_euclid(2i128.pow(b as u32)),
                    ">>" if b == 127 => -i128::from(a < 0),
                    _ => return None,
                }),
                (a, b) => {
                    let (a, b) = (float(a), float(b));
                    Float(match *operator {
                        "+" => a + b,
                        "-" => a - b,
                        "*" => a * b,
                        _ => a / b,
                    })
                }
            },
        })
    }

    fn is_float(&self) -> bool {
        match self {
            Number::Integer(_) => false,
            Number::Float(_) => true,
            Number::Path(path) => matches!(*path, "ratio" | "shape.Circle.radius"),
            Number::Negate(inner) => inner.is_float(),
            Number::Binary(_, a, b) => a.is_float() || b.is_float(),
        }
    }

    /// How many values are pending at most.
    fn depth(&self) -> usize {
        match self {
            Number::Binary(_, a, b) => a.depth().max(1 + b.depth()),
            Number::Negate(inner) => inner.depth(),
            _ => 1,
        }
    }

    fn precedence(&self) -> u8 {
        match self {
            Number::Binary("|", ..) => 1,
            Number::Binary("^", ..) => 2,
            Number::Binary("&", ..) => 3,
            Number::Binary("<<" | ">>", ..) => 4,
            Number::Binary("+" | "-", ..) => 5,
            Number::Binary(..) => 6,
            Number::Negate(_) => 7,
            _ => 8,
        }
    }

    fn write(&self, least: u8) -> String {
        let text = match self {
            Number::Integer(value) => value.to_string(),
            Number::Float(value) => format!("{value:?}"),
            Number::Path(path) => (*path).to_owned(),
            Number::Negate(inner) => format!("-{}", inner.write(7)),
            Number::Binary(operator, a, b) => {
                format!("{} {operator} {}", a.write(self.precedence()), b.write(self.precedence() + 1))
            }
        };
        if self.precedence() < least { format!("({text})") } else { text }
    }
}

fn ordering(a: Known, b: Known) -> Option<Ordering> {
    use Known::{Float, Integer};
    match (a, b) {
        (Integer(a), Integer(b)) => Some(a.cmp(&b)),
        (Float(a), Float(b)) => a.partial_cmp(&b),
        (Float(_), Integer(_)) => ordering(b, a).map(Ordering::reverse),
        (Integer(_), Float(b)) if b.is_nan() => None,
        // Floats of this size are whole: compared as decimal texts.
        (Integer(a), Float(b)) if b.abs() >= 1e18 => {
            let (left, right) = (format!("{a:+050}"), format!("{b:+050.0}"));
            match (a < 0, b < 0.0) {
                _ if b.is_infinite() || b.abs() > 1e40 => Some(if b > 0.0 { Ordering::Less } else { Ordering::Greater }),
                (true, true) => Some(right.cmp(&left)),
                (false, false) => Some(left.cmp(&right)),
                (negative, _) => Some(if negative { Ordering::Less } else { Ordering::Greater }),
            }
        }
        (Integer(a), Float(b)) => {
            let floor = b.floor() as i128;
            Some(if a > floor {
                Ordering::Greater
            } else if a < floor || b > b.floor() {
                Ordering::Less
            } else {
                Ordering::Equal
            })
        }
    }
}

fn compares(operator: &str, ordering: Option<Ordering>) -> bool {
    match (operator, ordering) {
        ("!=", ordering) => ordering != Some(Ordering::Equal),
        (_, None) => false,
        ("==", Some(o)) => o.is_eq(),
        ("<", Some(o)) => o.is_lt(),
        ("<=", Some(o)) => o.is_le(),
        (">", Some(o)) => o.is_gt(),
        (">=", Some(o)) => o.is_ge(),
        _ => panic!("{operator}"),
    }
}

/// The obvious matcher.
fn glob(pattern: &[char], text: &[char]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some('*'), _) => glob(&pattern[1..], text) || (!text.is_empty() && glob(pattern, &text[1..])),
        (Some(p), Some(t)) if *p == '?' || p == t => glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

fn glob_of(pattern: &str, text: &str) -> bool {
    glob(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>())
}

impl Text {
    fn value<'e>(&'e self, event: &'e Event) -> Option<&'e str> {
        match self {
            Text::Literal(text) => Some(text),
            Text::Path(path) => event.text(path),
        }
    }

    fn write(&self) -> String {
        match self {
            Text::Literal(text) => quote(text),
            Text::Path(path) => (*path).to_owned(),
        }
    }
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t"))
}

impl Condition {
    fn holds(&self, event: &Event) -> bool {
        let named = |is: &dyn Fn(&str) -> bool| {
            let value = i128::from(event.reason);
            LABELS.iter().any(|(name, low, high)| is(name) && *low <= value && value <= *high)
        };
        match self {
            Condition::Bool(value) => *value,
            Condition::Dirty => event.dirty,
            Condition::Has("owner") => event.owner.is_some(),
            Condition::Has(_) => event.page.is_some(),
            Condition::Numbers(operator, a, b) => match (a.value(event), b.value(event)) {
                (Some(a), Some(b)) => compares(operator, ordering(a, b)),
                _ => false,
            },
            Condition::Texts(operator, a, b) => match (a.value(event), b.value(event)) {
                (Some(a), Some(b)) => compares(operator, Some(a.cmp(b))),
                _ => false,
            },
            Condition::Matches(operator, text, pattern) => {
                text.value(event).is_some_and(|text| glob_of(pattern, text) == (*operator == "~"))
            }
            Condition::Named(operator, name) => named(&|n| n == *name) == (*operator == "=="),
            Condition::NameMatches(operator, pattern) => named(&|n| glob_of(pattern, n)) == (*operator == "~"),
            Condition::Bits(a, b) => {
                let both = Number::Binary("&", Box::new(a.clone()), Box::new(b.clone()));
                matches!(both.value(event), Some(Known::Integer(value)) if value != 0)
            }
            Condition::Not(inner) => !inner.holds(event),
            Condition::And(a, b) => a.holds(event) && b.holds(event),
            Condition::Or(a, b) => a.holds(event) || b.holds(event),
        }
    }

    fn write(&self, least: u8) -> String {
        let (precedence, text) = match self {
            Condition::Bool(value) => (5, value.to_string()),
            Condition::Dirty => (5, "dirty".to_owned()),
            Condition::Has(path) => (5, format!("has({path})")),
            Condition::Numbers(operator, a, b) => (3, format!("{} {operator} {}", a.write(0), b.write(0))),
            Condition::Texts(operator, a, b) => (3, format!("{} {operator} {}", a.write(), b.write())),
            Condition::Matches(operator, text, pattern) => (3, format!("{} {operator} {}", text.write(), quote(pattern))),
            Condition::Named(operator, name) => (3, format!("reason {operator} {}", quote(name))),
            Condition::NameMatches(operator, pattern) => (3, format!("reason {operator} {}", quote(pattern))),
            Condition::Bits(a, b) => (3, format!("{} & {}", a.write(3), b.write(4))),
            Condition::Not(inner) => (4, format!("!{}", inner.write(4))),
            Condition::And(a, b) => (2, format!("{} && {}", a.write(2), b.write(3))),
            Condition::Or(a, b) => (1, format!("{} || {}", a.write(1), b.write(2))),
        };
        if precedence < least { format!("({text})") } else { text }
    }
}

fn integer() -> impl Strategy<Value = i128> {
    prop_oneof![
        -4i128..8,
        Just(i128::from(i64::MIN)),
        Just(i128::from(i64::MAX)),
        Just(i128::from(u64::MAX)),
        (0u64..).prop_map(i128::from),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![-4.0..8.0, Just(0.5), Just(9_007_199_254_740_993.0), Just(18_446_744_073_709_551_616.0), Just(1e300), Just(3.0)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{0,3}", "[aé\"\\\\\n]{0,4}", Just("a.db".to_owned())]
}

fn event() -> impl Strategy<Value = Event> {
    let numbers = (
        prop_oneof![0u64..8, any::<u64>(), Just(u64::MAX)],
        prop_oneof![-4i64..8, any::<i64>(), Just(i64::MIN)],
        prop_oneof![float(), Just(f64::NAN), Just(f64::NEG_INFINITY), any::<f64>()],
    );
    let rest = (
        any::<bool>(),
        text(),
        -4i8..7,
        proptest::option::of(-4i32..8),
        proptest::option::of((0u32..8, text())),
        proptest::option::of(-2f32..4.0),
        0u32..4,
    );
    (numbers, rest).prop_map(|((unsigned, signed, ratio), (dirty, path, reason, owner, page, shape, vtid))| Event {
        unsigned,
        signed,
        ratio,
        dirty,
        path,
        reason,
        owner,
        page,
        shape,
        vtid,
    })
}

fn number() -> impl Strategy<Value = Number> {
    let paths = ["unsigned", "signed", "ratio", "reason", "owner", "page.id", "shape", "shape.Circle.radius", "$ctx.vtid"];
    let literal = |value: i128| {
        // Constants have no sign of their own.
        if value < 0 { Number::Negate(Box::new(Number::Integer(-value))) } else { Number::Integer(value) }
    };
    let leaf = prop_oneof![
        integer().prop_map(literal),
        (0.0f64..9.0).prop_map(Number::Float),
        proptest::sample::select(paths.to_vec()).prop_map(Number::Path),
        proptest::sample::select(paths.to_vec()).prop_map(Number::Path),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let integral = proptest::sample::select(vec!["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
        prop_oneof![
            inner.clone().prop_map(|n| Number::Negate(Box::new(n))),
            (integral, inner.clone(), inner).prop_map(|(operator, a, b)| {
                let whole = a.is_float() || b.is_float();
                let operator = if whole && !["+", "-", "*", "/"].contains(&operator) { "+" } else { operator };
                Number::Binary(operator, Box::new(a), Box::new(b))
            }),
        ]
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let comparison = || proptest::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let equality = || proptest::sample::select(vec!["==", "!="]);
    let matching = || proptest::sample::select(vec!["~", "!~"]);
    let some_text =
        || prop_oneof![text().prop_map(Text::Literal), proptest::sample::select(vec!["path", "page.file"]).prop_map(Text::Path)];
    let names = LABELS.map(|(name, ..)| name).to_vec();
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Condition::Bool),
        1 => Just(Condition::Dirty),
        1 => proptest::sample::select(vec!["owner", "page"]).prop_map(Condition::Has),
        6 => (comparison(), number(), number()).prop_map(|(o, a, b)| Condition::Numbers(o, a, b)),
        2 => (comparison(), some_text(), some_text()).prop_map(|(o, a, b)| Condition::Texts(o, a, b)),
        2 => (matching(), some_text(), "[ab?*]{0,4}").prop_map(|(o, a, b)| Condition::Matches(o, a, b)),
        1 => (equality(), proptest::sample::select(names)).prop_map(|(o, name)| Condition::Named(o, name)),
        1 => (matching(), proptest::sample::select(vec!["L*", "*a*", "Lru", "?????l", "*"]))
            .prop_map(|(o, pattern)| Condition::NameMatches(o, pattern)),
        1 => (number(), number()).prop_filter("bits of integers", |(a, b)| !a.is_float() && !b.is_float())
            .prop_map(|(a, b)| Condition::Bits(a, b)),
    ];
    leaf.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|c| Condition::Not(Box::new(c))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Condition::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Condition::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn depth(condition: &Condition) -> usize {
    match condition {
        Condition::Numbers(_, a, b) | Condition::Bits(a, b) => a.depth().max(1 + b.depth()),
        Condition::Not(inner) => depth(inner),
        Condition::And(a, b) | Condition::Or(a, b) => depth(a).max(depth(b)),
        _ => 2,
    }
}

/// What the run time does with a program that is one comparison: integers only, by bounds.
fn by_its_only_comparison(program: &Program, event: &Event) -> Option<bool> {
    let (input, comparison, constant) = program.as_comparison()?;
    let index = program.inputs().iter().position(|i| i == input)?;
    let Value::Integer(value) = Inputs(event, program).value(index) else { return Some(false) };
    Some(match comparison {
        Comparison::Equal => value == constant,
        Comparison::NotEqual => value != constant,
        Comparison::Less => value < constant,
        Comparison::LessOrEqual => value <= constant,
        Comparison::Greater => value > constant,
        Comparison::GreaterOrEqual => value >= constant,
    })
}

#[test]
fn a_program_of_one_comparison_says_the_same_by_it() {
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let shorter = std::cell::Cell::new(0);
    let outcome = runner.run(&(event(), -9_i64..9), |(event, number)| {
        for field in ["unsigned", "signed", "ratio", "dirty", "reason", "owner", "page.id", "shape.Circle.radius", "$ctx.vtid"] {
            let constant = if field == "dirty" { (number > 0).to_string() } else { number.to_string() };
            for comparison in ["==", "!=", "<", "<=", ">", ">="] {
                for text in [format!("{field} {comparison} {constant}"), format!("{constant} {comparison} {field}")] {
                    let Ok(program) = Expression::parse(&text).and_then(|e| e.compile(&scope())) else { continue };
                    if let Some(accepted) = by_its_only_comparison(&program, &event) {
                        prop_assert_eq!(accepted, program.accepts(&Inputs(&event, &program)), "{}", text);
                        shorter.set(shorter.get() + 1);
                    }
                }
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(shorter.get() > 1000);
}

#[test]
fn programs_say_what_the_tree_says() {
    let mut runner = TestRunner::new(Config { cases: 1500, failure_persistence: None, ..Config::default() });
    let counts = std::cell::Cell::new((0, 0, 0));
    let tests = (condition(), proptest::collection::vec(event(), 8));
    let outcome = runner.run(&tests, |(condition, events)| {
        let text = condition.write(0);
        let (mut yes, mut no, mut refused) = counts.get();
        let expression = Expression::parse(&text).map_err(|e| TestCaseError::fail(e.to_string()))?;
        match expression.compile(&scope()) {
            Ok(program) => {
                for event in &events {
                    let expected = condition.holds(event);
                    *(if expected { &mut yes } else { &mut no }) += 1;
                    prop_assert_eq!(program.accepts(&Inputs(event, &program)), expected, "{}", text);
                }
            }
            // Constants without a value, and too many pending values, are refused when compiled.
            Err(error) if error.problem() == "this has no value" => refused += 1,
            Err(error) => {
                prop_assert!(depth(&condition) > 8, "{error}");
                refused += 1;
            }
        }
        counts.set((yes, no, refused));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Neither answer is rare, and refusals are.
    let (yes, no, refused) = counts.get();
    assert!(yes > 1500 && no > 1500 && refused < 300, "{yes} {no} {refused}");
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,60}") {
        let _ = Expression::parse(&text).map(|e| e.compile(&scope())).map_err(|e| e.to_string());
    }

    #[test]
    fn any_words_are_parsed_or_refused(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "unsigned", "path", "page", "owner", ".", "$ctx", "has", "(", ")", "!", "-", "~", "!~", "&&", "||", "==", "<", "&",
            "<<", "/", "0", "1.5", "\"a\"", "0x7f", "true", "18446744073709551615", "id", "shape", "Circle", "`", "\"", "é",
        ]), 0..40),
        separator in proptest::sample::select(vec![" ", ""]),
    ) {
        let text = words.join(separator);
        if let Err(error) = Expression::parse(&text).and_then(|e| e.compile(&scope())) {
            let (span, shown) = (error.span(), error.to_string());
            prop_assert!(span.start <= span.end && span.end <= text.len(), "{span:?} {shown}");
        }
    }
}

#[test]
fn the_deepest_filters_fit_the_stack() {
    let event = Event {
        unsigned: 1,
        signed: 1,
        ratio: 1.0,
        dirty: true,
        path: String::new(),
        reason: 0,
        owner: None,
        page: None,
        shape: None,
        vtid: 1,
    };
    // Every level of precedence, again and again in parentheses; and the longest chain.
    let mut nested = "dirty".to_owned();
    for _ in 0..20 {
        nested = format!("dirty && !({nested} || 1 + 2 * unsigned << 1 & 7 == signed)");
    }
    let chain = vec!["unsigned == 1"; 149].join(" && ");
    for text in [nested, chain] {
        let program = Expression::parse(&text).and_then(|e| e.compile(&scope())).unwrap_or_else(|e| panic!("{e}"));
        program.accepts(&Inputs(&event, &program));
    }
}

#[test]
fn one_comparison_is_known_as_such() {
    let one = |text: &str| {
        let program = Expression::parse(text).and_then(|e| e.compile(&scope())).unwrap_or_else(|e| panic!("{e}"));
        program.as_comparison().map(|(input, comparison, constant)| (input.path.clone(), comparison, constant))
    };
    use trace_filter::Comparison::{Greater, Less};
    assert_eq!(one("unsigned > 4K"), Some((vec![Step::Field(0)], Greater, 4096)));
    assert_eq!(one("(4 * 1024 - 1 > unsigned)"), Some((vec![Step::Field(0)], Less, 4095)));
    assert_eq!(one("true && unsigned < -1"), Some((vec![Step::Field(0)], Less, -1)));
    assert_eq!(one("unsigned > 1.5"), None);
    assert_eq!(one("unsigned > 1 && signed > 1"), None);
}
