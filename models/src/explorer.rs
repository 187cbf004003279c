//! Visits every state that a model can reach.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What may follow a state: the next one, or what is wrong with the step.
pub type Next<S> = Result<S, &'static str>;

/// A model: states, and what may happen next in each.
pub trait Model {
    /// A state; equal ones are visited once.
    type State: Clone + Debug + Eq + Hash;

    /// Returns the first state.
    fn first(&self) -> Self::State;

    /// Gives what may follow `state`.
    fn steps(&self, state: &Self::State, step: &mut dyn FnMut(Next<Self::State>));

    /// Says what is wrong with a state in which nothing can happen any more.
    ///
    /// # Errors
    ///
    /// What is wrong.
    fn end(&self, state: &Self::State) -> Result<(), &'static str>;
}

/// How a model goes wrong.
#[derive(Debug)]
pub struct Wrong<S> {
    /// What.
    pub what: &'static str,
    /// The states that lead there.
    pub states: Vec<S>,
}

/// Visits all states, nearest first. Returns their number.
///
/// # Errors
///
/// A shortest way to something wrong.
pub fn explore<M: Model>(model: &M) -> Result<usize, Box<Wrong<M::State>>> {
    // Each state with the place of the one before it.
    let mut visited = vec![(model.first(), 0)];
    let mut known = HashSet::from([model.first()]);
    let mut at = 0;
    while at < visited.len() {
        let state = visited[at].0.clone();
        let (mut is_end, mut wrong) = (true, None);
        model.steps(&state, &mut |next| {
            is_end = false;
            match next {
                Err(what) => wrong = Some(what),
                Ok(next) => {
                    if known.insert(next.clone()) {
                        visited.push((next, at));
                    }
                }
            }
        });
        if is_end {
            wrong = model.end(&state).err();
        }
        if let Some(what) = wrong {
            let mut states = vec![state];
            while at != 0 {
                at = visited[at].1;
                states.push(visited[at].0.clone());
            }
            states.reverse();
            return Err(Box::new(Wrong { what, states }));
        }
        at += 1;
    }
    Ok(visited.len())
}

/// The store buffer of a CPU on x86-64: stores become visible to others in order, later; its own loads see them at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreBuffer<A, V>(Vec<(A, V)>);

impl<A, V> Default for StoreBuffer<A, V> {
    fn default() -> StoreBuffer<A, V> {
        StoreBuffer(Vec::new())
    }
}

impl<A: Copy + Eq, V: Copy> StoreBuffer<A, V> {
    /// Stores that one CPU keeps back at most.
    const DEPTH: usize = 4;

    /// Whether another store fits.
    pub fn has_room(&self) -> bool {
        self.0.len() < Self::DEPTH
    }

    /// Whether all stores are visible.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a store back.
    pub fn store(&mut self, address: A, value: V) {
        self.0.push((address, value));
    }

    /// Returns what this CPU stored last at an address, if that is not visible yet.
    pub fn load(&self, address: A) -> Option<V> {
        self.0.iter().rev().find(|(a, _)| *a == address).map(|(_, value)| *value)
    }

    /// Takes the oldest store, which becomes visible.
    pub fn drain_one(&mut self) -> Option<(A, V)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}
