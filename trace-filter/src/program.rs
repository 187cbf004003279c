//! The flat form, and its evaluation.
//!
//! A program is a list of steps. Values go onto a small stack; tests take them from there and set the one result; jumps go
//! forward only, so that each step runs at most once.

use crate::arithmetic::{calculate, compare, holds, matches, negate};
use crate::syntax::Calculation;
use alloc::boxed::Box;
use alloc::vec::Vec;
use trace_registry::Glob;
use trace_registry::field::{self, Value};

pub use crate::syntax::Comparison;

/// Most values that a program has on its stack.
pub(crate) const DEEPEST: usize = 8;

/// A value that a program asks for: by its index in [`Program::inputs`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// Whether it is a context field, and not a field of the event.
    pub context: bool,
    /// The way to it, from the fields of the event or of the context.
    pub path: Vec<field::Step>,
    /// Whether its values are integers, wherever it has one.
    pub is_integer: bool,
}

/// Where a program gets its values from.
pub trait Record {
    /// Returns the value of the input of this index.
    fn value(&self, input: usize) -> Value<'_>;
}

impl<F: Fn(usize) -> Value<'static>> Record for F {
    fn value(&self, input: usize) -> Value<'_> {
        self(input)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    // Onto the stack.
    Push(Constant),
    Load(u16),
    // What is on top of the stack.
    Negate,
    Calculate(Calculation),
    CalculateWith(Calculation, Constant),
    // Into the result.
    Compare(Comparison),
    CompareWith { left: Source, comparison: Comparison, right: Constant },
    Within { value: Source, ranges: Box<[(i128, i128)]>, negated: bool },
    Matches { value: Source, glob: Glob, negated: bool },
    Test(Source),
    Set(bool),
    // From the result.
    Not,
    JumpIf(bool, u16),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
}

impl Constant {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        match self {
            Constant::Integer(value) => Value::Integer(*value),
            Constant::Float(value) => Value::Float(*value),
            Constant::Text(text) => Value::Text(text),
        }
    }
}

/// Where a test takes its value from. Straight from the record is several times faster than by way of the stack, where values
/// are written in parts and read as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source {
    Stack,
    Input(u16),
}

/// A compiled filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    steps: Box<[Step]>,
    inputs: Box<[Input]>,
}

impl Program {
    pub(crate) fn new(steps: Vec<Step>, inputs: Vec<Input>) -> Program {
        Program { steps: steps.into(), inputs: inputs.into() }
    }

    /// Returns the values that the program may ask for.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns input, comparison and constant of a program that is one comparison of an input of integers with a constant, for
    /// callers that have a shorter way for it. A missing input is to be rejected.
    pub fn as_comparison(&self) -> Option<(&Input, Comparison, i128)> {
        match &*self.steps {
            [Step::CompareWith { left: Source::Input(input), comparison, right: Constant::Integer(constant) }] => {
                let input = self.inputs.get(usize::from(*input))?;
                // Floats compare with integers, too.
                input.is_integer.then_some((input, *comparison, *constant))
            }
            _ => None,
        }
    }

    /// Evaluates the program.
    ///
    /// # Signal safety
    ///
    /// Async-signal-safe and wait-free, if `record` is: no allocation, no lock, no panic, no recursion.
    #[inline]
    pub fn accepts<R: Record + ?Sized>(&self, record: &R) -> bool {
        let mut stack = Stack { values: [Value::Missing; DEEPEST], used: 0 };
        let mut result = false;
        let mut at = 0;
        macro_rules! value {
            ($source:expr) => {
                match $source {
                    Source::Input(input) => record.value(usize::from(*input)),
                    Source::Stack => stack.pop(),
                }
            };
        }
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Push(constant) => stack.push(constant.value()),
                Step::Load(input) => stack.push(record.value(usize::from(*input))),
                Step::Negate => stack.change(negate),
                Step::Calculate(calculation) => {
                    let right = stack.pop();
                    stack.change(|left| calculate(*calculation, left, right));
                }
                Step::CalculateWith(calculation, right) => stack.change(|left| calculate(*calculation, left, right.value())),
                Step::Compare(comparison) => {
                    let (right, left) = (stack.pop(), stack.pop());
                    result = holds(*comparison, left, right);
                }
                Step::CompareWith { left, comparison, right } => {
                    result = match (value!(left), right) {
                        (Value::Integer(left), Constant::Integer(right)) => compare(*comparison, &left, right),
                        (left, right) => holds(*comparison, left, right.value()),
                    };
                }
                Step::Within { value, ranges, negated } => {
                    result = match value!(value) {
                        Value::Integer(value) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&value)) != *negated,
                        _ => false,
                    };
                }
                Step::Matches { value, glob, negated } => {
                    result = matches(glob, value!(value)).is_some_and(|is| is != *negated);
                }
                Step::Test(value) => result = matches!(value!(value), Value::Integer(value) if value != 0),
                Step::Set(value) => result = *value,
                Step::Not => result = !result,
                // Forward only: the compiler jumps over what it compiled after the jump.
                Step::JumpIf(when, target) => {
                    if result == *when {
                        at = usize::from(*target).max(at);
                    }
                }
            }
        }
        result
    }
}

/// The values that are waiting. The compiler counted them: it is never too small, and never empty when popped.
struct Stack<'v> {
    values: [Value<'v>; DEEPEST],
    used: usize,
}

impl<'v> Stack<'v> {
    #[inline(always)]
    fn push(&mut self, value: Value<'v>) {
        if let Some(place) = self.values.get_mut(self.used) {
            *place = value;
            self.used += 1;
        }
    }

    /// Puts what `make` makes of the value on top in its place.
    #[inline(always)]
    fn change(&mut self, make: impl FnOnce(Value<'v>) -> Value<'static>) {
        if let Some(top) = self.used.checked_sub(1).and_then(|top| self.values.get_mut(top)) {
            *top = make(*top);
        }
    }

    #[inline(always)]
    fn pop(&mut self) -> Value<'v> {
        self.used = self.used.saturating_sub(1);
        self.values.get(self.used).copied().unwrap_or(Value::Missing)
    }
}
