//! Runs that go on from their lists.
