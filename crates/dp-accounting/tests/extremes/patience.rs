//! Processor time, and how much of it a call may take.

/// Seconds of processor time that a call may take.
pub(super) const PATIENCE: f64 = 20.0;

/// Processor time of this thread where the system tells, else the time on the wall.
pub(super) fn cpu_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedule
        .split(' ')
        .next()
        .and_then(|text| text.parse::<f64>().ok());
    nanoseconds.map_or_else(
        || {
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs_f64()
        },
        |x| 1e-9 * x,
    )
}
