use std::time::Instant;

/// A computation to be timed against others.
pub struct Contestant<'a> {
    run: Box<dyn FnMut() + 'a>,
    calls: u32,
}

impl std::fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Contestant");
        out.field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl<'a> Contestant<'a> {
    /// Wraps one call of the computation; its data is built outside.
    pub fn new(run: impl FnMut() + 'a) -> Self {
        Self {
            run: Box::new(run),
            calls: 1,
        }
    }

    /// Seconds of the current number of calls.
    fn measure(&mut self) -> f64 {
        let start = Instant::now();
        for _ in 0..self.calls {
            (self.run)();
        }
        start.elapsed().as_secs_f64()
    }

    /// Doubles the number of calls until they take `seconds`.
    fn calibrate(&mut self, seconds: f64) {
        while self.measure() < seconds {
            self.calls *= 2;
        }
    }
}

/// Processor time of all threads so far, as Linux tells it: what other programs take does not count.
#[must_use]
pub fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanoseconds = |task: std::io::Result<std::fs::DirEntry>| -> Option<f64> {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    1e-9 * tasks.filter_map(nanoseconds).sum::<f64>()
}

/// What a run took, by the processor's clock and by the one on the wall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Of all threads together.
    pub processor: f64,
    /// From begin to end.
    pub elapsed: f64,
}

impl Seconds {
    /// What a run gives, and took.
    pub fn of<T>(run: impl FnOnce() -> T) -> (T, Self) {
        let (start, processor) = (Instant::now(), processor_seconds());
        let result = run();
        let seconds = Self {
            elapsed: start.elapsed().as_secs_f64(),
            processor: processor_seconds() - processor,
        };
        (result, seconds)
    }

    /// The lesser of each.
    #[must_use]
    pub const fn least(self, other: Self) -> Self {
        Self {
            processor: self.processor.min(other.processor),
            elapsed: self.elapsed.min(other.elapsed),
        }
    }
}

/// As JSON.
impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, elapsed } = self;
        write!(f, "{{\"processor\": {processor}, \"elapsed\": {elapsed}}}")
    }
}

/// Seconds of one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Median over the rounds.
    pub median: f64,
    /// Fastest round: where other programs take the processor half of the time, the median says
    /// more about them.
    pub best: f64,
}

/// Times the contestants over `n_repetitions` rounds in which all take turns, each for at least
/// `seconds`. Slow phases of a shared machine so hit all of them alike, and ratios mean more than
/// the times.
pub fn take_turns(
    contestants: &mut [Contestant<'_>],
    n_repetitions: usize,
    seconds: f64,
) -> Vec<Timing> {
    let mut times = vec![Vec::with_capacity(n_repetitions); contestants.len()];
    for contestant in contestants.iter_mut() {
        contestant.calibrate(seconds);
    }
    for _ in 0..n_repetitions {
        for (contestant, own) in contestants.iter_mut().zip(&mut times) {
            own.push(contestant.measure() / f64::from(contestant.calls));
        }
    }
    times.into_iter().map(summary).collect()
}

fn summary(mut times: Vec<f64>) -> Timing {
    times.sort_by(f64::total_cmp);
    Timing {
        median: times[times.len() / 2],
        best: times[0],
    }
}
