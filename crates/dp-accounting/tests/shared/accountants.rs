//! The accountants that accept any event, by name.

use dp_accounting::{
    Accountant, PldAccountant, RdpAccountant, SaddlePointAccountant, TightestAccountant,
    ZcdpAccountant,
};
use dp_core::Adjacency;

pub(crate) fn accountants(adjacency: Adjacency) -> [(&'static str, Box<dyn Accountant>); 5] {
    [
        ("zcdp", Box::new(ZcdpAccountant::new(adjacency))),
        ("rdp", Box::new(RdpAccountant::new(adjacency))),
        ("pld", Box::new(PldAccountant::new(adjacency))),
        (
            "saddle-point",
            Box::new(SaddlePointAccountant::new(adjacency)),
        ),
        ("tightest", Box::new(TightestAccountant::new(adjacency))),
    ]
}
