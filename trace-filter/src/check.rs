//! Types: a tree whose names are inputs and whose constants are calculated.

use crate::arithmetic::{calculate, holds, negate};
use crate::error::Error;
use crate::program::Input;
use crate::scope::{Field, Kind, Label, Scope};
use crate::syntax::{Calculation, Comparison, Node, NodeKind, Operator, Path};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trace_registry::field::{Step, Value};
use trace_registry::{Glob, registry};

/// A checked expression.
pub(crate) struct Checked {
    pub(crate) condition: Condition,
    pub(crate) inputs: Vec<Input>,
}

/// What is true or false.
pub(crate) enum Condition {
    Constant(bool),
    Compare(Comparison, Operand, Operand),
    /// Whether a value is in one of the ranges, or in none, both ends included.
    Within {
        value: Operand,
        ranges: Vec<(i128, i128)>,
        negated: bool,
    },
    Matches {
        value: Operand,
        glob: Glob,
        negated: bool,
    },
    /// Whether a value is there, and not 0.
    True(Operand),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// What has a value.
pub(crate) enum Operand {
    Integer(i128),
    Float(f64),
    Text(String),
    Input(u16),
    Negate(Box<Operand>),
    Calculate(Calculation, Box<Operand>, Box<Operand>),
}

/// What an operand's values are.
#[derive(Clone, PartialEq)]
enum Type {
    Integer,
    Float,
    Bool,
    Text,
    /// With the name of the field, for messages.
    Enumeration(String, Vec<Label>),
}

impl Type {
    fn noun(&self) -> &'static str {
        match self {
            Type::Integer => "an integer",
            Type::Float => "a float",
            Type::Bool => "a bool",
            Type::Text => "text",
            Type::Enumeration(..) => "an enumeration",
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Type::Integer | Type::Float | Type::Enumeration(..))
    }
}

/// `is_partial`: a condition whose names the scope lacks is left out of an `||`.
pub(crate) fn check(root: &Node, scope: &Scope, is_partial: bool) -> Result<Checked, Error> {
    let mut checker = Checker { is_partial, ..Checker::new(scope) };
    let condition = checker.condition(root)?;
    Ok(Checked { condition, inputs: checker.inputs })
}

/// The input that a path stands for.
pub(crate) fn resolve(path: &Path, scope: &Scope) -> Result<Input, Error> {
    let mut checker = Checker::new(scope);
    checker.path(path)?;
    checker.inputs.pop().ok_or_else(|| Error::new(&(0..0), "a name is missing", ""))
}

/// What the scope lacks of the names in `root`, in their order.
pub(crate) fn unknown(root: &Node, scope: &Scope) -> Vec<Error> {
    let mut errors = Vec::new();
    Checker::new(scope).add_unknown(root, &mut errors);
    errors
}

struct Checker<'s> {
    scope: &'s Scope,
    inputs: Vec<Input>,
    is_partial: bool,
    /// Whether the condition stands behind an odd number of `!`.
    is_negated: bool,
}

impl<'s> Checker<'s> {
    fn new(scope: &'s Scope) -> Self {
        Checker { scope, inputs: Vec::new(), is_partial: false, is_negated: false }
    }

    fn add_unknown(&mut self, node: &Node, errors: &mut Vec<Error>) {
        match &node.kind {
            NodeKind::Path(path) | NodeKind::Has(path) => {
                let error = self.resolve(path).err().filter(Error::is_unknown);
                // A message about the name that says more than that it is unknown is there already.
                errors.extend(error.filter(|error| errors.iter().all(|known| known.span() != error.span())));
            }
            NodeKind::Negate(inner) | NodeKind::Not(inner) => self.add_unknown(inner, errors),
            NodeKind::Binary(operator, a, b) => {
                if let Operator::Compare(_) = operator {
                    errors.extend([self.check_label(a, b), self.check_label(b, a)].into_iter().filter_map(Result::err));
                }
                self.add_unknown(a, errors);
                self.add_unknown(b, errors);
            }
            NodeKind::Integer(_) | NodeKind::Float(_) | NodeKind::Text(_) | NodeKind::Bool(_) => {}
        }
    }

    /// Trees are as deep as `parse::MOST` says, so this may recurse.
    fn condition(&mut self, node: &Node) -> Result<Condition, Error> {
        match &node.kind {
            NodeKind::Bool(value) => Ok(Condition::Constant(*value)),
            NodeKind::Has(path) => Ok(Condition::True(self.presence(path)?)),
            NodeKind::Not(inner) => {
                self.is_negated = !self.is_negated;
                let condition = self.condition(inner);
                self.is_negated = !self.is_negated;
                Ok(match condition? {
                    Condition::Constant(value) => Condition::Constant(!value),
                    condition => Condition::Not(Box::new(condition)),
                })
            }
            NodeKind::Binary(operator @ (Operator::And | Operator::Or), a, b) => {
                let is_or = *operator == Operator::Or;
                let (a, b) = match (self.condition(a), self.condition(b)) {
                    // Of a name that the scope lacks, neither a condition nor its negation holds: the other side is left where
                    // one side is enough, which is at `&&` behind a `!`.
                    (Err(error), side) | (side, Err(error))
                        if self.is_partial && error.is_unknown() && is_or != self.is_negated =>
                    {
                        return side;
                    }
                    (a, b) => (a?, b?),
                };
                Ok(match (a, b) {
                    (Condition::Constant(value), _) | (_, Condition::Constant(value)) if value == is_or => {
                        Condition::Constant(value)
                    }
                    (Condition::Constant(_), other) | (other, Condition::Constant(_)) => other,
                    (a, b) if is_or => Condition::Or(Box::new(a), Box::new(b)),
                    (a, b) => Condition::And(Box::new(a), Box::new(b)),
                })
            }
            NodeKind::Binary(Operator::Compare(comparison), a, b) => self.comparison(*comparison, a, b),
            NodeKind::Binary(Operator::Matches, a, b) => self.matches(a, b, false),
            NodeKind::Binary(Operator::MatchesNot, a, b) => self.matches(a, b, true),
            NodeKind::Binary(Operator::Calculate(Calculation::BitAnd), ..) => Ok(Condition::True(self.operand(node)?.0)),
            _ => match self.operand(node)? {
                (operand, Type::Bool) => Ok(Condition::True(operand)),
                (_, other) => {
                    let remedy = match other {
                        Type::Text | Type::Enumeration(..) => "compare it, as in `… == \"text\"` or `… ~ \"te*\"`",
                        _ => "compare it, as in `… > 0`; whether bits are set is `… & 0x4`",
                    };
                    Err(Error::new(&node.span, format!("this is {}, not a condition", other.noun()), remedy))
                }
            },
        }
    }

    fn comparison(&mut self, comparison: Comparison, left: &Node, right: &Node) -> Result<Condition, Error> {
        self.check_label(left, right)?;
        self.check_label(right, left)?;
        // A name of an enumeration on either side.
        for (text, other, comparison) in [(right, left, comparison), (left, right, comparison.mirrored())] {
            if let NodeKind::Text(name) = &text.kind {
                if let (value, Type::Enumeration(field, labels)) = self.operand(other)? {
                    return named(comparison, value, name, text, &field, &labels);
                }
            }
        }
        let ((a, left_type), (b, right_type)) = (self.operand(left)?, self.operand(right)?);
        let fits = left_type.is_number() && right_type.is_number() || left_type == right_type;
        if !fits {
            let problem = format!("{} does not compare with {}", left_type.noun(), right_type.noun());
            let remedy = match (&left_type, &right_type) {
                (Type::Text, _) | (_, Type::Text) => "text stands in double quotes, numbers do not",
                _ => "",
            };
            return Err(Error::new(&(left.span.start..right.span.end), problem, remedy));
        }
        if left_type == Type::Bool && !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            return Err(Error::new(
                &(left.span.start..right.span.end),
                "bools have no order",
                "write `==`, `!=` or the field alone",
            ));
        }
        Ok(match (a.constant(), b.constant()) {
            (Some(a), Some(b)) => Condition::Constant(holds(comparison, a, b)),
            (Some(_), None) => Condition::Compare(comparison.mirrored(), b, a),
            _ => Condition::Compare(comparison, a, b),
        })
    }

    /// Says what is wrong where `word` stands for the name of a value of the enumeration `field`, without quotes.
    fn check_label(&mut self, word: &Node, field: &Node) -> Result<(), Error> {
        let NodeKind::Path(Path { context: false, names }) = &word.kind else { return Ok(()) };
        let [(name, span)] = names.as_slice() else { return Ok(()) };
        if self.scope.fields.iter().any(|f| f.name == *name) || !matches!(field.kind, NodeKind::Path(_)) {
            return Ok(());
        }
        match self.operand(field) {
            Ok((_, Type::Enumeration(field, labels))) if labels.iter().any(|l| l.name == *name) => {
                let problem = format!("no field is called `{name}`");
                let remedy = format!("the value of `{field}` is written \"{name}\", in double quotes");
                Err(Error::new(span, problem, remedy).unknown())
            }
            _ => Ok(()),
        }
    }

    fn matches(&mut self, left: &Node, right: &Node, negated: bool) -> Result<Condition, Error> {
        let NodeKind::Text(pattern) = &right.kind else {
            let remedy = "a pattern stands in double quotes: `*` stands for any characters, `?` for one";
            return Err(Error::new(&right.span, "expected a pattern", remedy));
        };
        let glob = Glob::new(pattern);
        match self.operand(left)? {
            (Operand::Text(text), _) => Ok(Condition::Constant(glob.matches(&text) != negated)),
            (value, Type::Text) => Ok(Condition::Matches { value, glob, negated }),
            (value, Type::Enumeration(field, labels)) => {
                let ranges = ranges(&labels, |name| glob.matches(name));
                if ranges.is_empty() {
                    let problem = format!("no value of `{field}` matches this");
                    return Err(Error::new(&right.span, problem, format!("its values are: {}", label_list(&labels))));
                }
                Ok(Condition::Within { value, ranges, negated })
            }
            (_, other) => {
                let problem = format!("`~` compares text, and this is {}", other.noun());
                Err(Error::new(&left.span, problem, "numbers are compared with ==, !=, <, <=, > and >="))
            }
        }
    }

    fn operand(&mut self, node: &Node) -> Result<(Operand, Type), Error> {
        Ok(match &node.kind {
            NodeKind::Integer(value) => (Operand::Integer(*value), Type::Integer),
            NodeKind::Float(value) => (Operand::Float(*value), Type::Float),
            NodeKind::Text(value) => (Operand::Text(value.clone()), Type::Text),
            NodeKind::Bool(value) => (Operand::Integer(i128::from(*value)), Type::Bool),
            NodeKind::Path(path) => self.path(path)?,
            NodeKind::Negate(inner) => {
                let (operand, type_) = self.number(inner, "-", false)?;
                (constant_or(operand.constant().map(negate), node, || Operand::Negate(Box::new(operand)))?, type_)
            }
            NodeKind::Binary(Operator::Calculate(calculation), a, b) => {
                let symbol = Operator::Calculate(*calculation).symbol();
                let integral = calculation.is_integral();
                let ((a, of_a), (b, of_b)) = (self.number(a, symbol, integral)?, self.number(b, symbol, integral)?);
                let known = a.constant().zip(b.constant()).map(|(a, b)| calculate(*calculation, a, b));
                let type_ = if of_a == Type::Float || of_b == Type::Float { Type::Float } else { Type::Integer };
                (constant_or(known, node, || Operand::Calculate(*calculation, Box::new(a), Box::new(b)))?, type_)
            }
            _ => {
                let remedy = "conditions are joined with `&&`, `||` and `!`";
                return Err(Error::new(&node.span, "expected a value, found a condition", remedy));
            }
        })
    }

    /// The operand of an operator on numbers.
    fn number(&mut self, node: &Node, symbol: &str, integral: bool) -> Result<(Operand, Type), Error> {
        match self.operand(node)? {
            (operand, Type::Enumeration(..)) => Ok((operand, Type::Integer)),
            (operand, Type::Integer) => Ok((operand, Type::Integer)),
            (operand, Type::Float) if !integral => Ok((operand, Type::Float)),
            (_, other) => {
                let what = if integral { "integers" } else { "numbers" };
                let remedy = match (symbol, &other) {
                    ("-", Type::Text | Type::Bool) | ("+", Type::Text) => "",
                    ("&", Type::Bool) => "`and` is `&&`",
                    ("|", Type::Bool) => "`or` is `||`",
                    _ => "",
                };
                Err(Error::new(&node.span, format!("`{symbol}` takes {what}, and this is {}", other.noun()), remedy))
            }
        }
    }

    fn path(&mut self, path: &Path) -> Result<(Operand, Type), Error> {
        let found = self.resolve(path)?;
        let (name, span) = found.name;
        let type_ = match found.kind {
            Kind::Integer => Type::Integer,
            Kind::Float => Type::Float,
            Kind::Bool => Type::Bool,
            Kind::Text => Type::Text,
            Kind::Enumeration(labels) => Type::Enumeration(name.clone(), labels.clone()),
            Kind::Variant(options) => {
                let index = |(i, option): (usize, &Field)| Label { name: option.name.clone(), low: i as i128, high: i as i128 };
                Type::Enumeration(name.clone(), options.iter().enumerate().map(index).collect())
            }
            Kind::Structure(fields) => {
                let whole = names(&path.names);
                let fields: Vec<String> = fields.iter().map(|f| format!("{whole}.{}", f.name)).collect();
                let remedy = format!("name one of its fields: {}", fields.join(", "));
                return Err(Error::new(span, format!("`{name}` is a structure"), remedy));
            }
            other @ (Kind::Unreadable(_) | Kind::Optional(_)) => return Err(unreadable(found.name, other)),
        };
        let is_integer = matches!(type_, Type::Integer | Type::Bool | Type::Enumeration(..));
        Ok((self.input(Input { context: path.context, path: found.steps, is_integer }), type_))
    }

    fn presence(&mut self, path: &Path) -> Result<Operand, Error> {
        let mut found = self.resolve(path)?;
        let (name, span) = found.name;
        if !found.optional {
            let problem = format!("`{name}` is always there");
            return Err(Error::new(span, problem, "`has(FIELD)` is for optional fields"));
        }
        found.steps.push(Step::Presence);
        Ok(self.input(Input { context: path.context, path: found.steps, is_integer: true }))
    }

    fn input(&mut self, input: Input) -> Operand {
        let index = self.inputs.iter().position(|known| *known == input).unwrap_or_else(|| {
            self.inputs.push(input);
            self.inputs.len() - 1
        });
        Operand::Input(index as u16) // at most `parse::MOST`
    }

    fn resolve<'n>(&self, path: &'n Path) -> Result<Found<'n, '_>, Error> {
        let fields = if path.context { &self.scope.context } else { &self.scope.fields };
        let what = if path.context { "context field" } else { "field" };
        let mut names = path.names.iter();
        // The parser makes no empty path.
        let Some(name) = names.next() else { return Err(Error::new(&(0..0), "a name is missing", "")) };
        let (index, field) = find(fields, name, what, None)?;
        let mut found = Found { name, kind: &field.kind, optional: false, steps: alloc::vec![Step::Field(index)] };
        found.unwrap();
        for name in names {
            let owner = &found.name.0;
            match found.kind {
                Kind::Structure(fields) => {
                    let (index, field) = find(fields, name, what, Some(owner))?;
                    found.steps.push(Step::Field(index));
                    found.kind = &field.kind;
                }
                Kind::Variant(options) => {
                    let (index, option) = find(options, name, "option", Some(owner))?;
                    found.steps.push(Step::Option(index));
                    found.kind = &option.kind;
                }
                other @ Kind::Unreadable(_) => return Err(unreadable(found.name, other)),
                other => {
                    let problem = format!("`{owner}` has no fields: it is of the kind {}", other.noun());
                    return Err(Error::new(&name.1, problem, ""));
                }
            }
            found.name = name;
            found.unwrap();
        }
        Ok(found)
    }
}

/// What a path stands for.
struct Found<'n, 's> {
    /// The last name.
    name: &'n (String, core::ops::Range<usize>),
    /// Without the `Optional` around it.
    kind: &'s Kind,
    optional: bool,
    steps: Vec<Step>,
}

impl Found<'_, '_> {
    fn unwrap(&mut self) {
        self.optional = false;
        while let Kind::Optional(inner) = self.kind {
            self.optional = true;
            self.kind = inner;
        }
    }
}

impl Operand {
    fn constant(&self) -> Option<Value<'_>> {
        match self {
            Operand::Integer(value) => Some(Value::Integer(*value)),
            Operand::Float(value) => Some(Value::Float(*value)),
            Operand::Text(text) => Some(Value::Text(text.as_bytes())),
            _ => None,
        }
    }
}

/// The operand of a calculated constant, if there is one.
fn constant_or(known: Option<Value<'static>>, node: &Node, other: impl FnOnce() -> Operand) -> Result<Operand, Error> {
    match known {
        None => Ok(other()),
        Some(Value::Integer(value)) => Ok(Operand::Integer(value)),
        Some(Value::Float(value)) => Ok(Operand::Float(value)),
        Some(_) => {
            Err(Error::new(&node.span, "this has no value", "it divides by zero, shifts too far, or does not fit 128 bits"))
        }
    }
}

fn unreadable((name, span): &(String, core::ops::Range<usize>), kind: &Kind) -> Error {
    let why = if let Kind::Unreadable(why) = kind { why } else { kind.noun() };
    Error::new(span, format!("`{name}` is {why}"), "a filter cannot see it")
}

/// Compares an enumeration with one of its names.
fn named(
    comparison: Comparison,
    value: Operand,
    name: &str,
    at: &Node,
    field: &str,
    labels: &[Label],
) -> Result<Condition, Error> {
    let negated = match comparison {
        Comparison::Equal => false,
        Comparison::NotEqual => true,
        _ => {
            let remedy = "compare its number, or write `==`, `!=` or `~`";
            return Err(Error::new(&at.span, "names of an enumeration have no order", remedy));
        }
    };
    let ranges = ranges(labels, |label| label == name);
    if !ranges.is_empty() {
        return Ok(Condition::Within { value, ranges, negated });
    }
    let near = registry::near(name, labels.iter().map(|l| l.name.clone()));
    let near: Vec<String> = near.iter().map(|name| format!("\"{name}\"")).collect();
    let remedy = format!("{}its values are: {}", mean(&near), label_list(labels));
    Err(Error::new(&at.span, format!("`{field}` has no value \"{name}\""), remedy))
}

/// What the labels that are `wanted` stand for.
fn ranges(labels: &[Label], wanted: impl Fn(&str) -> bool) -> Vec<(i128, i128)> {
    labels.iter().filter(|l| wanted(&l.name)).map(|l| (l.low, l.high)).collect()
}

fn find<'s>(
    fields: &'s [Field],
    (name, span): &(String, core::ops::Range<usize>),
    what: &str,
    owner: Option<&str>,
) -> Result<(u16, &'s Field), Error> {
    let found = (0..=u16::MAX).zip(fields).find(|(_, field)| field.name == *name);
    if let Some(found) = found {
        return Ok(found);
    }
    let problem = match owner {
        None => format!("no {what} is called `{name}`"),
        Some(owner) => format!("`{owner}` has no {what} `{name}`"),
    };
    if fields.is_empty() {
        return Err(Error::new(span, problem, format!("there are no {what}s")).unknown());
    }
    let near = registry::near(name, fields.iter().map(|f| f.name.clone()));
    let list: Vec<String> = fields.iter().take(LISTED).map(|f| format!("{} ({})", f.name, f.kind.noun())).collect();
    let more = if fields.len() > LISTED { ", …" } else { "" };
    Err(Error::new(span, problem, {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        format!("{}the {what}s are: {}{more}", mean(&near), list.join(", "))
    })
    .unknown())
}

/// Most fields or names that a message lists.
const LISTED: usize = 30;

fn mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) }
}

fn label_list(labels: &[Label]) -> String {
    let mut names: Vec<String> = labels.iter().map(|l| format!("\"{}\"", l.name)).collect();
    names.dedup();
    let more = if names.len() > LISTED { ", …" } else { "" };
    names.truncate(LISTED);
    names.join(", ").to_string() + more
}

fn names(path: &[(String, core::ops::Range<usize>)]) -> String {
    path.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(".")
}
