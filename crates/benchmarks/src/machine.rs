//! The source, the build and the machine of a record. What the system does not tell is `unknown`, 0 or empty.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn known(value: Option<&str>) -> String {
    value.unwrap_or("unknown").to_owned()
}

/// The value of the first line `name: value` or `name=value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once([':', '=']));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"'))
}

/// What was measured: the commit's hash, `unknown` outside a repository, and whether tracked files differed from it.
pub fn source() -> Value {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let command = command.args(["-C", env!("CARGO_MANIFEST_DIR")]);
        let output = command.args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    json!({
        "commit": known(git(&["rev-parse", "HEAD"]).as_deref()),
        "dirty": changes.is_some_and(|changes| !changes.is_empty()),
    })
}

/// How it was compiled. Times mean nothing with debug assertions.
pub fn build() -> Value {
    json!({
        "rustc": env!("BUILT_WITH"),
        "target": env!("BUILT_FOR"),
        "opt_level": env!("BUILT_OPT_LEVEL"),
        "rustflags": env!("BUILT_WITH_FLAGS"),
        "debug_assertions": cfg!(debug_assertions),
    })
}

/// The machine that this runs on, with its clock in MHz when the run began, the caches of CPU 0, and memory in bytes.
pub fn machine() -> Value {
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    let version = ["cpu family", "model", "stepping"].map(|name| field(&cpu, name));
    let flags = field(&cpu, "flags").unwrap_or_default();
    let hypervisor = match flags.split(' ').any(|flag| flag == "hypervisor") {
        true => read("/sys/hypervisor/type").unwrap_or_else(|| "kind unknown".to_owned()),
        false => "none seen".to_owned(),
    };
    let memory = read("/proc/meminfo").unwrap_or_default();
    let memory = field(&memory, "MemTotal").and_then(|total| total.split(' ').next());
    let status = read("/proc/self/status").unwrap_or_default();
    let release = read("/etc/os-release").unwrap_or_default();
    let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
    // The chosen setting stands in brackets: `always [madvise] never`.
    let chosen = |all: &'_ str| Some(all.split_once('[')?.1.split_once(']')?.0.to_owned());
    json!({
        "cpu": known(field(&cpu, "model name")),
        // Virtual machines give many CPUs the same name.
        "cpu_version": version.map(|part| part.unwrap_or("unknown")).join("-"),
        "clock_mhz": field(&cpu, "cpu MHz").and_then(|clock| clock.parse::<f64>().ok()),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "affinity": known(field(&status, "Cpus_allowed_list")),
        "caches": (0..8).map_while(cache).collect::<Vec<_>>(),
        "memory": memory.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
        "hypervisor": hypervisor,
        "os": known(field(&release, "PRETTY_NAME").or(Some(std::env::consts::OS))),
        "kernel": known(read("/proc/sys/kernel/osrelease").as_deref()),
        "huge_pages": known(huge_pages.as_deref().and_then(chosen).as_deref()),
    })
}

/// A cache of CPU 0, as in `L1 Data 48K`.
fn cache(index: u32) -> Option<String> {
    let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
    let of = |what| read(&format!("{folder}/{what}"));
    Some(format!("L{} {} {}", of("level")?, of("type")?, of("size")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "cpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Some CPU\n\nmodel\t: 1\n";
        assert_eq!(field(text, "model"), Some("207"));
        assert_eq!(field(text, "model name"), Some("Some CPU"));
        assert_eq!(field(text, "name"), None);
        assert_eq!(field("PRETTY_NAME=\"An OS 12\"", "PRETTY_NAME"), Some("An OS 12"));
    }

    #[test]
    fn this_build_and_machine_are_described() {
        let build = build();
        assert!(build["rustc"].as_str().unwrap().starts_with("rustc "), "{build}");
        assert!(build["target"] != "" && machine()["cpus"] != 0, "{build}");
    }
}
