//! A checked tree to the flat form.

use crate::check::{Checked, Condition, Operand};
use crate::error::Error;
use crate::program::{DEEPEST, Program, Step};
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

pub(crate) fn compile(checked: &Checked, whole: &Range<usize>) -> Result<Program, Error> {
    let mut compiler = Compiler { steps: Vec::new(), pending: 0, most: 0 };
    compiler.condition(&checked.condition);
    if compiler.most > DEEPEST {
        let problem = format!("this calculates with {} values at once, and {DEEPEST} is the most", compiler.most);
        return Err(Error::new(whole, problem, "write the nested side of an operator first: `(a * b) + c`, not `c + (a * b)`"));
    }
    Ok(Program::new(compiler.steps, checked.inputs.clone()))
}

struct Compiler {
    steps: Vec<Step>,
    /// Values on the stack, now and at most.
    pending: usize,
    most: usize,
}

impl Compiler {
    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Constant(value) => self.steps.push(Step::Set(*value)),
            Condition::Compare(comparison, Operand::Input(input), Operand::Integer(constant)) => {
                self.steps.push(Step::CompareInput { input: *input, comparison: *comparison, constant: *constant });
            }
            Condition::Compare(comparison, a, b) => {
                self.operand(a);
                self.operand(b);
                self.test(2, Step::Compare(*comparison));
            }
            Condition::Within { value, ranges, negated } => {
                self.operand(value);
                self.test(1, Step::Within { ranges: ranges.as_slice().into(), negated: *negated });
            }
            Condition::Matches { value, glob, negated } => {
                self.operand(value);
                self.test(1, Step::Matches { glob: glob.clone(), negated: *negated });
            }
            Condition::True(value) => {
                self.operand(value);
                self.test(1, Step::Test);
            }
            Condition::Not(inner) => {
                self.condition(inner);
                self.steps.push(Step::Not);
            }
            Condition::And(a, b) => self.either(a, b, false),
            Condition::Or(a, b) => self.either(a, b, true),
        }
    }

    /// `b` is evaluated unless `a` is `decided`.
    fn either(&mut self, a: &Condition, b: &Condition, decided: bool) {
        self.condition(a);
        let jump = self.steps.len();
        self.steps.push(Step::JumpIf(decided, 0));
        self.condition(b);
        // A tree has at most `parse::MOST` nodes, and a node makes at most two steps.
        self.steps[jump] = Step::JumpIf(decided, self.steps.len() as u16);
    }

    fn operand(&mut self, operand: &Operand) {
        match operand {
            Operand::Integer(value) => self.push(Step::Integer(*value)),
            Operand::Float(value) => self.push(Step::Float(*value)),
            Operand::Text(text) => self.push(Step::Text(text.as_bytes().into())),
            Operand::Input(input) => self.push(Step::Load(*input)),
            Operand::Negate(value) => {
                self.operand(value);
                self.steps.push(Step::Negate);
            }
            Operand::Calculate(calculation, a, b) => {
                self.operand(a);
                self.operand(b);
                self.pending -= 1;
                self.steps.push(Step::Calculate(*calculation));
            }
        }
    }

    fn push(&mut self, step: Step) {
        self.pending += 1;
        self.most = self.most.max(self.pending);
        self.steps.push(step);
    }

    /// A step that takes `values` and sets the result.
    fn test(&mut self, values: usize, step: Step) {
        self.pending -= values;
        self.steps.push(step);
    }
}
