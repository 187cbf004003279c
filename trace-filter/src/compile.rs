//! A checked tree to the flat form.

use crate::check::{Checked, Condition, Operand};
use crate::error::Error;
use crate::program::{Constant, DEEPEST, Program, Source, Step};
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
            Condition::Compare(comparison, a, b) => match constant(b) {
                Some(right) => {
                    let left = self.source(a);
                    self.steps.push(Step::CompareWith { left, comparison: *comparison, right });
                }
                None => {
                    self.operand(a);
                    self.operand(b);
                    self.pending -= 2;
                    self.steps.push(Step::Compare(*comparison));
                }
            },
            Condition::Within { value, ranges, negated } => {
                let value = self.source(value);
                self.steps.push(Step::Within { value, ranges: ranges.as_slice().into(), negated: *negated });
            }
            Condition::Matches { value, glob, negated } => {
                let value = self.source(value);
                self.steps.push(Step::Matches { value, glob: glob.clone(), negated: *negated });
            }
            Condition::True(value) => {
                let value = self.source(value);
                self.steps.push(Step::Test(value));
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

    /// Where a test takes an operand from, that it is the only one on the stack of.
    fn source(&mut self, operand: &Operand) -> Source {
        if let Operand::Input(input) = operand {
            return Source::Input(*input);
        }
        self.operand(operand);
        self.pending -= 1;
        Source::Stack
    }

    fn operand(&mut self, operand: &Operand) {
        if let Some(constant) = constant(operand) {
            return self.push(Step::Push(constant));
        }
        match operand {
            Operand::Input(input) => self.push(Step::Load(*input)),
            Operand::Negate(value) => {
                self.operand(value);
                self.steps.push(Step::Negate);
            }
            Operand::Calculate(calculation, a, b) => {
                self.operand(a);
                match constant(b) {
                    Some(right) => self.steps.push(Step::CalculateWith(*calculation, right)),
                    None => {
                        self.operand(b);
                        self.pending -= 1;
                        self.steps.push(Step::Calculate(*calculation));
                    }
                }
            }
            // A constant.
            _ => {}
        }
    }

    fn push(&mut self, step: Step) {
        self.pending += 1;
        self.most = self.most.max(self.pending);
        self.steps.push(step);
    }
}

fn constant(operand: &Operand) -> Option<Constant> {
    Some(match operand {
        Operand::Integer(value) => Constant::Integer(*value),
        Operand::Float(value) => Constant::Float(*value),
        Operand::Text(text) => Constant::Text(text.as_bytes().into()),
        _ => return None,
    })
}
