use dp_core::Private;

use super::{ShardSum, SumBackend, SumRequest};
use crate::Result;

/// All users in one shard of this process; the kernel distributes them over the threads of rayon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InProcess;

impl SumBackend for InProcess {
    fn sum(&self, _: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        shard(0)
    }
}
