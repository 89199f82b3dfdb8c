//! The ledger's file under crashes, damage and concurrent writers.

mod audit;
mod crashes_lose_nothing;
mod damage_is_found;
mod held_releases;
mod made_on_purpose;
mod nights;
mod other_budgets;
mod other_ledgers_are_refused;
mod pays_within_the_budget;
mod plans_fit_their_own_budget;
mod replaced_files;
mod runs_and_notes;
mod succession;
mod support;
mod tiny_spends;
