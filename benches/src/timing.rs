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

    /// Seconds per call, over the current number of calls.
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

/// Processor time of all threads so far, as reported by Linux: time used by other programs does not
/// count.
#[must_use]
pub fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanoseconds = |task: std::io::Result<std::fs::DirEntry>| -> Option<f64> {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    1e-9 * tasks.filter_map(nanoseconds).sum::<f64>()
}

/// Processor time and wall-clock time of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Processor time of all threads together.
    pub processor: f64,
    /// Wall-clock time.
    pub elapsed: f64,
}

impl Seconds {
    /// The result of a run, and its time.
    pub fn of<T>(run: impl FnOnce() -> T) -> (T, Self) {
        let (start, processor) = (Instant::now(), processor_seconds());
        let result = run();
        let seconds = Self {
            elapsed: start.elapsed().as_secs_f64(),
            processor: processor_seconds() - processor,
        };
        (result, seconds)
    }

    /// The smaller value of each clock.
    #[must_use]
    pub const fn least(self, other: Self) -> Self {
        Self {
            processor: self.processor.min(other.processor),
            elapsed: self.elapsed.min(other.elapsed),
        }
    }
}

/// Formats as JSON.
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
    /// Fastest round. If other programs use the processor half of the time, the median describes
    /// them more than the contestant.
    pub best: f64,
}

/// Times the contestants over `n_repetitions` rounds in which each takes a turn of at least
/// `seconds`. Slow phases of a shared machine then affect all of them alike, so that ratios are
/// more meaningful than the times.
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
