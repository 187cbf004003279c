//! The tree of an expression.

use crate::check;
use crate::compile;
use crate::error::Error;
use crate::parse;
use crate::program::{Input, Program};
use crate::scope::Scope;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use trace_registry::field::Value;

/// An expression that was parsed, and not checked against any class yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// Parses an expression: all of `text`, at most 4096 bytes.
    ///
    /// # Errors
    ///
    /// What is no expression, and where.
    pub fn parse(text: &str) -> Result<Expression, Error> {
        match parse::parse(text) {
            Ok(root) => Ok(Expression { text: text.into(), root }),
            Err(error) => Err(error.of(text)),
        }
    }

    /// Checks the expression against what there is, and compiles it.
    ///
    /// # Errors
    ///
    /// A name that nothing has, a value of the wrong type, a constant that cannot be calculated.
    pub fn compile(&self, scope: &Scope) -> Result<Program, Error> {
        self.compiled(scope, false)
    }

    /// Compiles the expression for a class of events that may lack some of the names, which others have.
    ///
    /// A condition on a name that the scope lacks does not hold, and neither does its negation: `a > 1 || b > 1` is `b > 1` where
    /// there is no `a`. Whether any class has the name is for a [`Survey`](crate::Survey) to say.
    ///
    /// # Errors
    ///
    /// As for [`compile`](Self::compile); a name that the scope lacks only where no event can be accepted without it.
    pub fn compile_partial(&self, scope: &Scope) -> Result<Program, Error> {
        self.compiled(scope, true)
    }

    fn compiled(&self, scope: &Scope, is_partial: bool) -> Result<Program, Error> {
        check::check(&self.root, scope, is_partial)
            .and_then(|checked| compile::compile(&checked, &(0..self.text.len())))
            .map_err(|error| error.of(&self.text))
    }

    /// What the scope lacks of the names in the expression, in their order.
    pub(crate) fn unknown(&self, scope: &Scope) -> impl Iterator<Item = Error> {
        check::unknown(&self.root, scope).into_iter().map(|error| error.of(&self.text))
    }

    /// Returns the names of the context fields that it names, in their order.
    pub fn context(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.add_context(&mut names);
        names
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The name of a value, by which events are told apart.
///
/// ```
/// use trace_filter::{Field, Key, Kind, Scope, Step, Value};
/// let scope = Scope::new([Field::new("request", Kind::Integer)], []);
/// let key = Key::parse("request").and_then(|key| key.resolve(&scope));
/// assert_eq!(key.map(|input| input.path), Ok(vec![Step::Field(0)]));
/// assert_eq!(Key::hash(Value::Integer(7)), Key::hash(Value::Integer(7))); // in every process, on every machine
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    text: String,
    path: Path,
}

impl Key {
    /// Parses a path, such as `request_id`, `page.id` or `$ctx.vtid`: all of `text`.
    ///
    /// # Errors
    ///
    /// What is no path, and where.
    pub fn parse(text: &str) -> Result<Key, Error> {
        parse::parse_path(text).map(|path| Key { text: text.into(), path }).map_err(|error| error.of(text))
    }

    /// Looks the key up among what there is.
    ///
    /// # Errors
    ///
    /// A name that nothing has, or what is no single value.
    pub fn resolve(&self, scope: &Scope) -> Result<Input, Error> {
        check::resolve(&self.path, scope).map_err(|error| error.of(&self.text))
    }

    /// Returns the name of the context field that it is, or is part of.
    pub fn context(&self) -> Option<&str> {
        self.path.context()
    }

    /// Returns a number that depends on the value only, evenly spread over 64 bits. Missing values share one.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free; in proportion to the length of a text.
    pub fn hash(value: Value<'_>) -> u64 {
        // FNV-1a, and the finalizer of SplitMix64, which spreads what differs in few bits.
        let text = |bytes: &[u8], seed: u64| bytes.iter().fold(seed, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        let mut hash = match value {
            Value::Missing => 0,
            // An integer beyond 64 bits is the half of one that a program calculated: fields have none.
            Value::Integer(value) => (value as u64).wrapping_add(BASIS),
            Value::Float(value) => value.to_bits().wrapping_add(BASIS >> 1),
            Value::Text(bytes) => text(bytes, BASIS),
            Value::Char(character) => text(character.encode_utf8(&mut [0; 4]).as_bytes(), BASIS),
        };
        hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A part of an expression, and the bytes of the text that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    Integer(i128),
    Float(f64),
    Text(String),
    Bool(bool),
    Path(Path),
    /// `has(…)`
    Has(Path),
    Negate(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    /// Whether it begins with `$ctx`.
    pub(crate) context: bool,
    /// The names, at least one.
    pub(crate) names: Vec<(String, Range<usize>)>,
}

impl Node {
    fn add_context<'n>(&'n self, names: &mut Vec<&'n str>) {
        match &self.kind {
            NodeKind::Path(path) | NodeKind::Has(path) => names.extend(path.context()),
            NodeKind::Negate(node) | NodeKind::Not(node) => node.add_context(names),
            NodeKind::Binary(_, left, right) => {
                left.add_context(names);
                right.add_context(names);
            }
            NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Text(_) | NodeKind::Bool(_) => {}
        }
    }
}

impl Path {
    fn context(&self) -> Option<&str> {
        self.names.first().filter(|_| self.context).map(|(name, _)| name.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Compare(Comparison),
    Matches,
    MatchesNot,
    Calculate(Calculation),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The same comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

/// How a value is made from two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calculation {
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Calculation {
    /// Whether it is for integers only.
    pub(crate) fn is_integral(self) -> bool {
        !matches!(self, Calculation::Add | Calculation::Subtract | Calculation::Multiply | Calculation::Divide)
    }
}

impl Operator {
    pub(crate) fn symbol(self) -> &'static str {
        use Calculation as C;
        use Comparison as O;
        match self {
            Operator::Or => "||",
            Operator::And => "&&",
            Operator::Matches => "~",
            Operator::MatchesNot => "!~",
            Operator::Compare(O::Equal) => "==",
            Operator::Compare(O::NotEqual) => "!=",
            Operator::Compare(O::Less) => "<",
            Operator::Compare(O::LessOrEqual) => "<=",
            Operator::Compare(O::Greater) => ">",
            Operator::Compare(O::GreaterOrEqual) => ">=",
            Operator::Calculate(C::BitOr) => "|",
            Operator::Calculate(C::BitXor) => "^",
            Operator::Calculate(C::BitAnd) => "&",
            Operator::Calculate(C::ShiftLeft) => "<<",
            Operator::Calculate(C::ShiftRight) => ">>",
            Operator::Calculate(C::Add) => "+",
            Operator::Calculate(C::Subtract) => "-",
            Operator::Calculate(C::Multiply) => "*",
            Operator::Calculate(C::Divide) => "/",
            Operator::Calculate(C::Remainder) => "%",
        }
    }
}
