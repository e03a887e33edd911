//! The memory of this process, where Linux tells it.

const KIB_PER_MIB: f64 = 1024.0;

/// The most memory this process ever had, in KiB.
pub fn peak_kib() -> Option<u64> {
    field(&status()?, "VmHWM")
}

/// The most memory this process ever had, in MiB.
pub fn peak_mib() -> Option<f64> {
    peak_kib().map(|kib| kib as f64 / KIB_PER_MIB)
}

/// The memory this process has now, in MiB.
pub fn current_mib() -> Option<f64> {
    field(&status()?, "VmRSS").map(|kib| kib as f64 / KIB_PER_MIB)
}

fn status() -> Option<String> {
    std::fs::read_to_string("/proc/self/status").ok()
}

/// The number of a line as `VmRSS:   1234 kB`.
fn field(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let status = "Name:\tenergyrun\nVmHWMs:\t1 kB\nVmHWM:\t   20480 kB\nVmRSS:\t10240 pages\n";
        assert_eq!(field(status, "VmHWM"), Some(20480));
        assert_eq!(field(status, "VmRSS"), None);
        assert_eq!(field(status, "VmSwap"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_is_no_less_than_what_is_used() {
        let now = current_mib().expect("a number");
        assert!(now > 0.0 && peak_mib().expect("a number") >= now);
    }
}
