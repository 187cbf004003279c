//! An expression and several classes of events.

use crate::error::Error;
use crate::scope::Scope;
use crate::syntax::Expression;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Whether an expression fits events of several classes, each of which may lack some of its names.
///
/// ```
/// use trace_filter::{Expression, Field, Kind, Scope, Survey};
/// let classes = ["read", "write"].map(|name| (name, Scope::new([Field::new(name, Kind::Integer)], [])));
/// let survey = |text| {
///     let expression = Expression::parse(text)?;
///     let mut survey = Survey::new(&expression);
///     for (name, scope) in &classes {
///         survey.add(name, scope.clone(), expression.compile_partial(scope).err());
///     }
///     survey.finish()
/// };
/// assert_eq!(survey("read > 1 || write > 1"), Ok(()));
/// assert_eq!(survey("read > 1 || wrote > 1").map_err(|e| e.problem().to_owned()), Err("no field is called `wrote`".to_owned()));
/// ```
#[derive(Clone, Debug)]
pub struct Survey<'e> {
    expression: &'e Expression,
    /// Of the first class.
    name: String,
    classes: usize,
    fits: bool,
    /// Names that no class has had so far.
    unknown: Vec<Error>,
    /// The fields of all classes.
    all: Scope,
    /// The first error that is about more than a name.
    misfit: Option<Error>,
}

impl<'e> Survey<'e> {
    /// Starts a survey.
    pub fn new(expression: &'e Expression) -> Self {
        let all = Scope::new([], []);
        Survey { expression, name: String::new(), classes: 0, fits: false, unknown: Vec::new(), all, misfit: None }
    }

    /// Adds a class: its name, its fields, and why the expression was not [compiled](Expression::compile_partial) for it.
    pub fn add(&mut self, name: &str, scope: Scope, error: Option<Error>) {
        let mut unknown: Vec<Error> = self.expression.unknown(&scope).collect();
        if self.classes == 0 {
            name.clone_into(&mut self.name);
        } else {
            unknown.retain(|error| self.unknown.iter().any(|known| known.span() == error.span()));
        }
        self.unknown = unknown;
        self.classes += 1;
        self.all.extend(scope);
        self.fits |= error.is_none();
        if let Some(error) = error.filter(|error| self.misfit.is_none() && !error.is_unknown()) {
            self.misfit = Some(error.about(name));
        }
    }

    /// Says what is wrong, if anything.
    ///
    /// # Errors
    ///
    /// A name that none of the classes has, or why the expression fits none of them.
    pub fn finish(self) -> Result<(), Error> {
        let Survey { expression, name, classes, fits, unknown, all, misfit } = self;
        if let Some(unknown) = unknown.into_iter().next() {
            // With the fields of all classes to choose from.
            let error = expression.unknown(&all).find(|error| error.span() == unknown.span()).unwrap_or(unknown);
            return Err(if classes == 1 { error.about(&name) } else { error });
        }
        if fits || classes == 0 {
            return Ok(());
        }
        Err(misfit.unwrap_or_else(|| {
            let whole = expression.as_str();
            let remedy = "conditions on fields of different events are joined with `||`";
            Error::at(whole, 0..whole.len(), format!("none of {classes} event classes has all of these fields"), remedy)
        }))
    }
}
