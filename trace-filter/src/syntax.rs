//! The tree of an expression.

use crate::check;
use crate::compile;
use crate::error::Error;
use crate::parse;
use crate::program::Program;
use crate::scope::Scope;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

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
        check::check(&self.root, scope)
            .and_then(|checked| compile::compile(&checked, &(0..self.text.len())))
            .map_err(|error| error.of(&self.text))
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
