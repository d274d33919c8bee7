//! Every example that the command or a page shows is run as it stands, and every option and metric that they name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nutfilter_testing::loopback::Loopback;
use nutfilter_testing::seeded_mint::{KEYSETS, Mint, SIGNED, SPENT};
use nutfilter_wallet::Points;
use nutfilter_wallet::cashu::{Seed, SeedPoints};

use crate::nutfilter::{Place, Ran, hex, item};
use crate::support::{Server, nutfilter, sample, serve_from};

/// The columns of a terminal in which help is not wrapped, less an indent.
const COLUMNS: usize = 76;

/// What these tests do not run, and why. Each occurs.
const NOT_RUN: [(&str, &str); 20] = [
    ("cargo ", "builds: the gate runs the first ones, `tutorial` that of the wallet's"),
    ("pip install", "fetches packages: the steps of Python do so"),
    ("cd bindings/python", "builds a wheel"),
    ("maturin build", "builds a wheel"),
    ("python examples/billion.py", "needs Spark: the step `python` runs it"),
    ("python -m pytest", "the step `python` runs it"),
    ("npm ", "fetches packages: the step `npm` runs it"),
    ("URL --seed-file FILE", "a synopsis"),
    ("URL --keyset ID", "a synopsis"),
    ("useradd ", "needs root: e2e of contrib runs the unit"),
    ("mkdir -p /etc", "needs root"),
    ("install -m 600", "needs root"),
    ("(set -a", "needs root: e2e of contrib reads the lines"),
    ("cp contrib/systemd", "needs root"),
    ("systemctl ", "needs root"),
    ("journalctl ", "needs root"),
    ("postgres://", "needs Postgres: e2e and the tests of crates/mint run it"),
    ("nutfilter demo  ", "serves for ever: the tests of the demo run it"),
    ("MINT_DATABASE='", "a file for systemd: e2e of contrib reads it"),
    ("MINT_API='", "a file for systemd"),
];

const WORDS: &str =
    "because patient dismiss crystal enforce step liar wood pottery radio high defy";

fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

fn sqlite(database: &Path, statements: &str) {
    let connection = rusqlite::Connection::open(database).expect("a database");
    connection.execute_batch(statements).expect(statements);
}

/// A directory with what the examples read, and programs that stand for those that a machine need not have.
struct World {
    place: Place,
    mint: Loopback,
    service: Server,
    /// Lines that ran, and that did not.
    ran: usize,
    left_out: BTreeSet<&'static str>,
}

impl World {
    fn new() -> Self {
        let place = Place::new();
        let seed: Seed = WORDS.parse().expect("words");
        let mint = Mint::start(&seed, 0, |mint| mint.others.clear()).expect("a mint");
        let keyset = KEYSETS[0].parse().expect("a keyset");
        let mut points = SeedPoints::new(&seed, &keyset).expect("points");
        let ys = points.ys(0..SIGNED[10] + 1).expect("points");
        let y = |counter: u32| hex(&ys[counter as usize]);
        let pair = |counter: &u32| {
            let message = points.message(*counter).expect("a message").to_hex();
            format!("{message} {}\n", y(*counter))
        };
        let mine: String = SIGNED[..SPENT].iter().map(|&counter| y(counter) + "\n").collect();
        place.write("words.txt", WORDS);
        place.write("pairs", SIGNED.iter().map(pair).collect::<String>());
        for name in ["mine.hex", "my-notes.hex", "spent.hex"] {
            place.write(name, &mine);
        }
        place.write("emails.txt", "a@example.org\nb@example.org\n");
        place.write("mine.txt", "a@example.org\n");
        place.write("users.txt", "a\nb\n");
        place.write("notes.bin", (0..9).flat_map(item).collect::<Vec<_>>());
        place.write("scripts.hex", format!("0014{}\n", "ab".repeat(20)));
        sample(place.root());
        // Notes of that mint have to be points, and it has nutshell's table too.
        let points = mine.lines().enumerate();
        let set = points.map(|(at, y)| format!("update proof set y = x'{y}' where rowid = (select min(rowid) + {at} from proof where state = 'SPENT');"));
        let rest = format!(
            "delete from proof where state = 'SPENT' and rowid >= (select min(rowid) + {SPENT} from proof where state = 'SPENT');"
        );
        sqlite(&place.path("cdk-mintd.sqlite"), &(set.collect::<String>() + &rest));
        let values = mine.lines().map(|y| format!("('{y}')")).collect::<Vec<_>>().join(",");
        let notes =
            format!("create table proofs_used (y text); insert into proofs_used values {values}");
        sqlite(&place.path("mint.sqlite3"), &notes);
        let database = place.path("cdk-mintd.sqlite");
        let service = Server::start(serve_from(&database, &format!("--mint-api {}", mint.url)));
        fs::create_dir(place.path("bin")).expect("a directory");
        // A service is stopped when it is ready, by its own log: that of the one before would be found first.
        let serving = format!(
            r#"case "$*" in
                serve*--once*|serve*--check-config*) exec {0} "$@" ;;
                serve*) rm -f serving.log; {0} "$@" --listen 127.0.0.1:0 2> serving.log & pid=$!
                    for _ in $(seq 300); do grep -qs ' ready ' serving.log && break; sleep 0.1; done
                    kill $pid; grep ' ready ' serving.log ;;
                *) exec {0} "$@" ;;
            esac"#,
            env!("CARGO_BIN_EXE_nutfilter")
        );
        let block = r#"printf '{"filter": "%s", "header": ""}' "$(od -An -v -tx1 block.filter | tr -d ' \n')""#;
        for (name, body) in
            [("nutfilter", serving.as_str()), ("bitcoin-cli", block), ("duckdb", "cat spent.hex")]
        {
            let path = place.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
            let run = Command::new("chmod").arg("+x").arg(path).status();
            assert!(run.expect("chmod").success());
        }
        Self { place, mint, service, ran: 0, left_out: BTreeSet::new() }
    }

    /// Runs these lines in one shell. `mint` stands for the mint of the examples.
    fn run(&mut self, of: &str, text: &str, mint: &str) {
        let mut script = String::new();
        let mut lines = text.lines();
        while let Some(first) = lines.next() {
            let mut line = first.to_owned();
            while line.ends_with('\\') || line.ends_with("&&") {
                line = line + "\n" + lines.next().expect("a line after \\");
            }
            if let Some((part, _)) = NOT_RUN.iter().find(|(part, _)| line.contains(part)) {
                self.left_out.insert(part);
                continue;
            }
            self.ran += usize::from(!line.trim().is_empty() && !line.trim().starts_with('#'));
            script += &(line + "\n");
        }
        let place = self.place.root().display();
        for (shown, meant) in [
            ("https://mint.example/Bitcoin", mint),
            ("https://mint.example", mint),
            ("http://127.0.0.1:3338", &self.mint.url),
            ("http://127.0.0.1:3339", &self.service.base),
            ("/var/lib/cdk-mintd/cdk-mintd.sqlite", &format!("{place}/cdk-mintd.sqlite")),
            ("009a1f293253e41e", KEYSETS[0]),
            ("00ad268c4d1f5826", "00deadbeefc0ffee"),
        ] {
            script = script.replace(shown, meant);
        }
        let hash = "00".repeat(32);
        let ran = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(self.place.root())
            .env_clear()
            .env("PATH", format!("{place}/bin:{}", std::env::var("PATH").expect("a PATH")))
            .env("HASH", hash)
            .stdin(Stdio::null())
            .output();
        let ran = Ran::from(ran.expect("bash"));
        assert_eq!(ran.code, Some(0), "{of}:\n{script}\n{}", ran.stderr);
    }
}

/// The lines behind "Examples:" in the help of each command, as a terminal of this width shows them.
fn examples(command: &str, columns: usize) -> Vec<String> {
    let help = nutfilter()
        .args(command.split_whitespace())
        .arg("--help")
        .env("COLUMNS", columns.to_string())
        .output();
    let help = Ran::from(help.expect("the binary")).text();
    let after = help.split("\nExamples:\n").nth(1).unwrap_or_default();
    let lines = after.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line[2..].to_owned()).collect()
}

/// The blocks for a shell of a page.
fn blocks(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap_or_default();
    let blocks = text.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("a block")).collect()
}

const COMMANDS: [&str; 6] = ["", "build", "check", "restore", "inspect", "serve"];

#[test]
fn examples_run_as_they_stand() {
    let mut world = World::new();
    let mint = world.mint.url.clone();
    for command in COMMANDS {
        let shown = examples(command, 80);
        assert!(!shown.is_empty(), "{command}: no examples");
        assert_eq!(shown, examples(command, 500), "{command}: wrapped");
        for line in &shown {
            assert!(line.len() <= COLUMNS, "{} columns: {line}", line.len());
        }
        world.run(command, &shown.join("\n"), &mint);
    }
    let root = repository();
    let readmes = ["crates/cli", "crates/testing", "bindings/npm", "bindings/python", "."];
    let readmes = readmes.map(|folder| root.join(folder).join("README.md"));
    for page in readmes.into_iter().chain(pages(&root.join("docs"))) {
        let is_service = page.ends_with("tutorial-mint.md");
        let mint = [&mint, &world.service.base][usize::from(is_service)].clone();
        world.run(&page.display().to_string(), &blocks(&page), &mint);
    }
    let all: BTreeSet<_> = NOT_RUN.iter().map(|(part, _)| *part).collect();
    assert_eq!(world.left_out, all, "each reason not to run a line is needed");
    eprintln!("{} lines of examples ran", world.ran);
    assert!(world.ran > 40, "{} lines", world.ran);
}

/// Every page, in and below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| pages(folder));
    files.into_iter().chain(below).collect()
}

#[test]
fn pages_name_options_and_metrics_that_exist() {
    let help: String = COMMANDS
        .iter()
        .chain(&["demo"])
        .map(|command| {
            let help = nutfilter().args(command.split_whitespace()).arg("--help").output();
            Ran::from(help.expect("the binary")).text()
        })
        .collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let known: BTreeSet<_> = help.split(|c| !is_word(c)).collect();
    let root = repository();
    let mut all = pages(&root.join("docs"));
    all.extend(pages(&root.join("contrib")));
    all.push(root.join("README.md"));
    let (place, _) = crate::support::mint();
    let server = Server::of(&place, "--mint-api http://127.0.0.1:9");
    // Some metrics begin with the first request.
    server.get("/health");
    let metrics = server.get("/metrics").1;
    let mut wrong = vec![];
    for page in all {
        let Ok(text) = fs::read_to_string(&page) else {
            continue;
        };
        for line in text.lines().filter(|line| line.contains("nutfilter ")) {
            // Of one command: not of what it is piped to.
            let parts = line.split("nutfilter ").skip(1);
            let is_ours = |part: &&str| COMMANDS[1..].iter().any(|name| part.starts_with(name));
            for part in parts.filter(is_ours) {
                let own = part.split(['|', '`', ';', '#', ')']).next().unwrap_or_default();
                let words = own.split(|c| !is_word(c)).filter(|word| word.starts_with("--"));
                let unknown = words.filter(|word| word.len() > 2 && !known.contains(word));
                wrong.extend(unknown.map(|word| format!("{}: {word}", page.display())));
            }
        }
        for word in text.split(|c| !is_word(c)).filter(|word| word.starts_with("nutfilter_")) {
            let name = word.trim_end_matches("_bucket");
            let is_crate = ["mint", "serve", "wallet", "cashu", "objects", "testing"]
                .iter()
                .any(|one| name == format!("nutfilter_{one}"));
            if !is_crate && !metrics.contains(name) {
                wrong.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
