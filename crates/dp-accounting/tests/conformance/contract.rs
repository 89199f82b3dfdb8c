//! Runs every check for every accountant, each as a test of its own.

use dp_accounting::{
    GdpAccountant, PldAccountant, RdpAccountant, SaddlePointAccountant, TightestAccountant,
    ZcdpAccountant,
};
use dp_core::Adjacency;

use super::subject::Subject;
use super::{composition, monotone, questions};

macro_rules! subjects {
    ($($name:ident: $accountant:ty, slow if $slow:meta;)+) => {
        $(impl Subject for $accountant {
            fn fresh(adjacency: Adjacency) -> Self {
                Self::new(adjacency)
            }
        }

        mod $name {
            use super::*;

            type A = $accountant;

            #[test]
            fn count_is_repetition() {
                composition::count_is_repetition_of::<A>();
            }

            #[test]
            fn order_is_irrelevant() {
                composition::order_is_irrelevant_to::<A>();
            }

            #[test]
            fn refusals_change_nothing() {
                composition::refusals_change_nothing_in::<A>();
            }

            #[test]
            fn nothing_composed() {
                composition::nothing_composed_in::<A>();
            }

            #[test]
            fn unknown_events_are_refused() {
                questions::unknown_events_are_refused_by::<A>();
            }

            #[test]
            #[cfg_attr($slow, ignore = "minutes: many brackets")]
            fn monotone_in_the_question() {
                monotone::monotone_in_the_question_to::<A>();
            }

            #[test]
            #[cfg_attr($slow, ignore = "minutes: many brackets")]
            fn monotone_in_parameters() {
                monotone::monotone_in_parameters_of::<A>();
            }

            #[test]
            fn more_events_cost_more() {
                monotone::more_events_cost_more_in::<A>();
            }

            #[test]
            fn bad_questions_are_errors() {
                questions::bad_questions_are_errors_for::<A>();
            }
        })+
    };
}

subjects! {
    gdp: GdpAccountant, slow if any();
    zcdp: ZcdpAccountant, slow if any();
    rdp: RdpAccountant, slow if any();
    pld: PldAccountant, slow if all();
    saddle_point: SaddlePointAccountant, slow if any();
    tightest: TightestAccountant, slow if all();
}
