//! What loom explores.

use models::{event_ids, fallback, lists};

#[test]
fn fallback_two_writers_and_a_reader() {
    fallback::two_writers_and_a_reader(None);
}

#[test]
#[should_panic]
fn fallback_plain_reserve_is_found() {
    fallback::two_writers_and_a_reader(Some(fallback::Mutation::PlainReserve));
}

#[test]
fn fallback_a_lap_during_a_copy() {
    fallback::a_lap_during_a_copy(None);
}

#[test]
#[should_panic]
fn fallback_copy_not_checked_is_found() {
    fallback::a_lap_during_a_copy(Some(fallback::Mutation::CopyNotChecked));
}

#[test]
fn fallback_consuming_a_full_ring() {
    fallback::consuming_a_full_ring(None);
}

#[test]
#[should_panic(expected = "it was written over")]
fn fallback_consumed_first_is_found() {
    fallback::consuming_a_full_ring(Some(fallback::Mutation::ConsumedFirst));
}

#[test]
fn event_ids_are_described_before_they_are_published() {
    event_ids::described_before_published(false);
}

#[test]
#[should_panic(expected = "an ID that is not described")]
fn event_ids_published_first_are_found() {
    event_ids::described_before_published(true);
}

#[test]
fn lists_outlive_their_readers() {
    lists::lists_outlive_their_readers(2, None);
}

#[test]
#[should_panic]
fn lists_one_phase_is_found() {
    lists::lists_outlive_their_readers(2, Some(lists::Mutation::OnePhase));
}

#[test]
#[should_panic]
fn lists_not_loaded_again_are_found() {
    lists::lists_outlive_their_readers(1, Some(lists::Mutation::ListNotLoadedAgain));
}

#[test]
#[should_panic]
fn lists_without_a_fence_are_found() {
    lists::lists_outlive_their_readers(1, Some(lists::Mutation::NoFence));
}

#[test]
#[should_panic]
fn lists_that_are_left_in_another_phase_are_found() {
    lists::lists_outlive_their_readers(2, Some(lists::Mutation::LeavesAnotherPhase));
}

#[test]
#[should_panic]
fn lists_without_a_grace_period_are_found() {
    lists::lists_outlive_their_readers(1, Some(lists::Mutation::NoGracePeriod));
}
