//! What the explorer visits.

use models::append::{self, Append};
use models::explorer::{Model, explore};
use models::read_side::{self, ReadSide};

/// Nothing goes wrong.
fn holds(name: &str, model: &impl Model) {
    match explore(model) {
        Ok(states) => println!("{name}: {states} states"),
        Err(wrong) => panic!("{name}: {wrong:#?}"),
    }
}

/// Something does.
fn is_found(name: &str, model: &impl Model) {
    match explore(model) {
        Ok(states) => panic!("{name}: not found in {states} states"),
        Err(wrong) => println!("{name}: {} after {} steps", wrong.what, wrong.states.len()),
    }
}

#[test]
fn read_side_holds() {
    holds("read side", &ReadSide { mutation: None });
}

#[test]
fn mutations_of_the_read_side_are_found() {
    use read_side::Mutation::*;
    for mutation in [Unrestarted, MixedWords, OnePhase, ListNotLoadedAgain, NoMembarrier, EntersFirst, LeavesAnotherPhase] {
        is_found(&format!("read side, {mutation:?}"), &ReadSide { mutation: Some(mutation) });
    }
}

#[test]
fn append_holds() {
    for (overwrites, by_thread) in [(false, false), (true, false), (false, true), (true, true)] {
        holds("append", &Append { overwrites, by_thread, mutation: None });
    }
}

#[test]
fn mutations_of_the_append_are_found() {
    use append::Mutation::*;
    let both = [Unrestarted, IndexNotCompared, PositionBeforeBytes, StampOutsideCommit, RecordToTheEnd, DescriptorAfterCommit];
    let cases = both.iter().flat_map(|m| [(false, *m), (true, *m)]);
    for (overwrites, mutation) in cases.chain([(false, ConsumedIgnored), (true, CopyNotChecked), (false, OpenNotCompared)]) {
        let model = Append { overwrites, by_thread: false, mutation: Some(mutation) };
        is_found(&format!("append, overwrites: {overwrites}, {mutation:?}"), &model);
    }
    for mutation in
        [Unrestarted, PositionBeforeBytes, StampOutsideCommit, RecordToTheEnd, DescriptorAfterCommit, NumberGivenTwice]
    {
        let model = Append { overwrites: false, by_thread: true, mutation: Some(mutation) };
        is_found(&format!("append by thread, {mutation:?}"), &model);
    }
}
