/// Peak resident set size of this process so far; NaN where the system does not report it.
#[must_use]
pub fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|n| n.trim().parse::<f64>().ok())
        .map_or(f64::NAN, |n| n / 1024.0)
}
