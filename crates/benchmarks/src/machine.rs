//! What a record says of the source, the build and the machine.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Source {
    /// The commit's hash; `unknown` outside a repository.
    pub commit: String,
    /// Whether files that git knows had changed since.
    pub dirty: bool,
}

/// How it was compiled. What nobody wrote down is `unknown`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Build {
    /// The compiler's own words.
    pub rustc: String,
    /// The target triple.
    pub target: String,
    /// Of the profile.
    pub opt_level: String,
    /// What RUSTFLAGS or the configuration added; empty as a rule.
    pub rustflags: String,
    /// Whether assertions that a user's build does not have were compiled in; `None` where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_assertions: Option<bool>,
}

/// Where it ran. What the system does not say is `unknown`, 0 or an empty list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Machine {
    /// The CPU's own name.
    pub cpu: String,
    /// Family, model and stepping, which tell apart what hypervisors name alike.
    pub cpu_version: String,
    /// CPUs that the program may use.
    pub cpus: usize,
    /// Which ones.
    pub affinity: String,
    /// Of CPU 0.
    pub caches: Vec<String>,
    /// In bytes.
    pub memory: u64,
    /// `none seen`, or what is known of it.
    pub hypervisor: String,
    /// The system's name.
    pub os: String,
    /// The kernel's version.
    pub kernel: String,
    /// Which of the settings of transparent huge pages is chosen.
    pub huge_pages: String,
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".to_owned())
}

/// The value of the first line `name: value`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once([':', '=']));
    let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"'))
}

impl Source {
    /// Asks git.
    #[must_use]
    pub fn now() -> Self {
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            let command = command.args(["-C", env!("CARGO_MANIFEST_DIR")]);
            let output = command.args(arguments).output().ok()?;
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(said)
        };
        let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
        Self {
            commit: known(git(&["rev-parse", "HEAD"])),
            dirty: changes.is_some_and(|changes| !changes.is_empty()),
        }
    }
}

impl Build {
    /// The build that runs.
    #[must_use]
    pub fn this() -> Self {
        Self {
            rustc: env!("BUILT_WITH").to_owned(),
            target: env!("BUILT_FOR").to_owned(),
            opt_level: env!("BUILT_OPT_LEVEL").to_owned(),
            rustflags: env!("BUILT_WITH_FLAGS").to_owned(),
            debug_assertions: Some(cfg!(debug_assertions)),
        }
    }
}

impl Machine {
    /// The machine that this runs on.
    #[must_use]
    pub fn this() -> Self {
        let cpu = read("/proc/cpuinfo").unwrap_or_default();
        let own = |text: Option<&str>| known(text.map(str::to_owned));
        let version = ["cpu family", "model", "stepping"].map(|name| field(&cpu, name));
        let flags = field(&cpu, "flags").unwrap_or_default();
        let hypervisor = match flags.split(' ').any(|flag| flag == "hypervisor") {
            true => own(read("/sys/hypervisor/type")
                .as_deref()
                .or(Some("kind unknown"))),
            false => "none seen".to_owned(),
        };
        let memory = read("/proc/meminfo").unwrap_or_default();
        let memory = field(&memory, "MemTotal").and_then(|total| total.split(' ').next());
        let status = read("/proc/self/status").unwrap_or_default();
        let release = read("/etc/os-release").unwrap_or_default();
        let huge_pages = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = |all: &str| Some(all.split_once('[')?.1.split_once(']')?.0.to_owned());
        Self {
            cpu: own(field(&cpu, "model name")),
            cpu_version: version.map(|part| part.unwrap_or("unknown")).join("-"),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            affinity: own(field(&status, "Cpus_allowed_list")),
            caches: (0..8).map_while(cache).collect(),
            memory: memory.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024,
            hypervisor,
            os: field(&release, "PRETTY_NAME")
                .unwrap_or(std::env::consts::OS)
                .to_owned(),
            kernel: known(read("/proc/sys/kernel/osrelease")),
            huge_pages: known(huge_pages.as_deref().and_then(chosen)),
        }
    }
}

impl Machine {
    /// The CPU's name without what its vendor adds to all of them, and how many CPUs: `xeon-2-cpus`.
    #[must_use]
    pub fn name(&self) -> String {
        // What follows is the clock.
        let cpu = self.cpu.split('@').next().unwrap_or_default();
        let cpu = cpu.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
        let words = cpu.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let noise = |word: &&str| {
            let is_count = word.ends_with("-core");
            word.is_empty() || is_count || VENDORS_WORDS.contains(word)
        };
        let mut name: Vec<String> = words
            .filter(|word| !noise(word))
            .map(str::to_owned)
            .collect();
        if name.is_empty() {
            name.push("unknown".to_owned());
        }
        format!("{}-{}-cpus", name.join("-"), self.cpus)
    }
}

/// What vendors write into the name of every CPU.
const VENDORS_WORDS: [&str; 7] = [
    "intel",
    "amd",
    "cpu",
    "processor",
    "genuine",
    "authentic",
    "virtual",
];

/// A cache of CPU 0, as in `L1 Data 48K`.
fn cache(index: u32) -> Option<String> {
    let of = |what| {
        read(&format!(
            "/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"
        ))
    };
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
        assert_eq!(
            field("PRETTY_NAME=\"An OS 12\"", "PRETTY_NAME"),
            Some("An OS 12")
        );
    }

    #[test]
    fn a_machine_is_named_by_its_cpu_without_noise() {
        let mut machine = Machine::this();
        for (cpu, cpus, expected) in [
            ("Intel(R) Xeon(R) Processor", 2, "xeon-2-cpus"),
            (
                "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz",
                1,
                "xeon-platinum-8375c-1-cpus",
            ),
            (
                "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz",
                12,
                "core-i7-8700-12-cpus",
            ),
            ("AMD EPYC 7763 64-Core Processor", 128, "epyc-7763-128-cpus"),
            ("../etc/x", 1, "etc-x-1-cpus"),
            ("unknown", 0, "unknown-0-cpus"),
            (" Processor", 4, "unknown-4-cpus"),
        ] {
            (machine.cpu, machine.cpus) = (cpu.to_owned(), cpus);
            assert_eq!(machine.name(), expected);
        }
    }

    #[test]
    fn this_build_and_machine_are_described() {
        let build = Build::this();
        assert!(build.rustc.starts_with("rustc "), "{build:?}");
        assert!(
            !build.target.is_empty() && !build.opt_level.is_empty(),
            "{build:?}"
        );
        assert!(Machine::this().cpus > 0);
    }
}
