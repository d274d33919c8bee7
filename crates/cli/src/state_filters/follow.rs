//! `nutfilter follow`: reports the candidates that may be in a mint's state filters.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use clap::builder::TypedValueParser;
use nutfilter_cashu::state_filters::Event;
use nutfilter_cashu::state_filters::manifest::HEARTBEAT;
use nutfilter_wallet::follow::{
    Bookmark, FollowError, Follower, Found, Plan, Progress, SequenceFormat, Unverified,
};
use nutfilter_wallet::{
    FetchError, KeysetId, Matches, MintClient, MintError, Policy, QueryError, RejectReason,
    Restored,
};

use super::{announce, element};
use crate::check::Verdict;
use crate::error::CliError;
use crate::fetch::{self, AskArgs, ConnectionArgs};
use crate::globals::Globals;
use crate::items::{Input, InputArgs};
use crate::output::{self, utc};
use crate::restore;
use crate::value_parsers;

/// Wait between two looks if the mint does not say how long its answer stays current.
const USUAL_INTERVAL: u64 = 60;

/// The longest wait that a mint can cause.
const MAX_INTERVAL: u64 = 3_600;

/// How often a round starts again because a segment was merged between the manifest and its download.
const REPLANS: u32 = 3;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FollowArgs {
    /// URL of the mint. The mint is not trusted.
    #[arg(long = "mint", id = "mint", value_name = "URL")]
    url: String,

    /// Kind of events.
    #[arg(long, value_parser = element::event())]
    kind: Event,

    /// State to look for; can be repeated [default: SPENT for proof_state, PAID for melt_quote].
    #[arg(long)]
    state: Vec<String>,

    /// Start at this time, in Unix seconds [default: the bookmark in --data-dir, or the beginning].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = value_parsers::whole::<u64>)]
    since: Option<u64>,

    /// Look once and exit, instead of waiting for more.
    #[arg(long)]
    once: bool,

    /// Wait between two looks [default: as long as the mint says that its answer stays current, or 60].
    #[arg(long, value_name = "SECONDS", conflicts_with = "once", value_parser = fetch::parse_seconds)]
    interval: Option<Duration>,

    /// Format of the state filters [default: that of the bookmark, or segments if the mint has them].
    #[arg(long, value_parser = format())]
    format: Option<SequenceFormat>,

    /// Keep a bookmark in this directory, continue from it, and notice later changes. One directory per mint.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Keep copies of all segments in --data-dir, compute merges again from their parts, and check the chain of
    /// manifests since the bookmark.
    #[arg(long, requires = "data_dir")]
    audit: bool,

    /// File of candidates, one per line, or `-` for standard input: compressed points in hex for proof_state (Y) and
    /// blind_signature (B_), quote IDs as text for mint_quote and melt_quote.
    candidates: PathBuf,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Ask the mint about the matches before printing them: whether proofs are spent (proof_state), or for the
    /// signatures on messages (blind_signature, with --keyset). Reveals only the matches to the mint.
    #[arg(long, help_heading = "Queries about matches")]
    confirm: bool,

    /// Keyset of the messages, for --confirm with blind_signature.
    #[arg(
        long,
        value_name = "ID",
        requires = "confirm",
        allow_hyphen_values = true,
        help_heading = "Queries about matches"
    )]
    keyset: Option<String>,

    /// Do not pad requests with decoy points. A query for signatures never has decoys.
    #[arg(long, requires = "confirm", help_heading = "Queries about matches")]
    no_decoys: bool,

    #[command(flatten)]
    ask: AskArgs,
}

fn format() -> impl TypedValueParser<Value = SequenceFormat> {
    let segments = "Segments, listed by a manifest";
    value_parsers::words([
        ("segments", segments, SequenceFormat::Segments),
        (
            "blocks",
            "The Bloom blocks of the draft",
            SequenceFormat::Blocks,
        ),
    ])
}

const EXAMPLES: &str = "\
Prints a line for each candidate that may be in an interval, when all downloads of a look are checked:
  SPENT<TAB>candidate<TAB>start-end      the state, or the kind if it has no states; Unix seconds
A match may be a false positive: confirm it before anything irreversible. The end of an interval that will be read
again is `open`. Nothing about the candidates is sent to the mint.
With --confirm, the line ends in <TAB>spent, pending or unspent, or in <TAB>unsigned or <TAB>signed<TAB>signature
(JSON). The mint sees the matches, for spent proofs mixed with random points.
Exit code with --once: 0 some candidate matched (--confirm: is spent, pending or signed), 1 none did, 2 error.

Examples:
  nutfilter follow --mint https://mint.example --kind proof_state --once ys.hex
  nutfilter follow --mint https://mint.example --kind proof_state --data-dir bookmarks --confirm ys.hex
  nutfilter follow --mint https://mint.example --kind mint_quote --since 1767225600 quotes.txt";

pub(crate) fn run(args: &FollowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match follow(args, globals) {
        // The reader of a pipe has seen enough.
        Err(CliError::OutputClosed) => Ok(ExitCode::SUCCESS),
        followed => followed,
    }
}

fn follow(args: &FollowArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    args.ask.needs(args.confirm)?;
    let question = Question::of(args)?;
    let (texts, ids) = read_candidates(args, globals)?;
    let policy = Policy {
        decoys: !args.no_decoys,
        ..args.ask.policy(args.connection.policy())
    };
    let client = fetch::client(&args.url, policy, &args.connection, globals)?;
    let place = fetch::place(&client);
    let usual = match args.kind {
        Event::ProofState => "SPENT",
        Event::MeltQuote => "PAID",
        _ => "",
    };
    let states = args.state.iter().map(String::as_str);
    let mut states: Vec<_> = states.collect();
    if states.is_empty() && !usual.is_empty() {
        states.push(usual);
    }
    if question == Some(Question::Spent) && states != ["SPENT"] {
        return Err(CliError::usage("--confirm works with the state SPENT only"));
    }
    let follower = Follower::new(client.clone(), args.kind, &states, &ids)
        .map_err(|error| CliError::usage(error.to_string()))?;
    let bookmark = match &args.data_dir {
        Some(directory) => Bookmark::load(directory, args.kind)?,
        None => None,
    };
    if let Some(bookmark) = &bookmark
        && args.since.is_none()
        && follower.has_other_candidates(bookmark)
    {
        globals.warn("the candidates have changed; new ones are only looked for after the bookmark. Use --since to start earlier");
    }
    let mut progress = bookmark.map(Progress::from).unwrap_or_default();
    let mut since = args.since;
    let mut rounds = Rounds {
        args,
        client: &client,
        follower: &follower,
        question: question.as_ref(),
        texts: &texts,
        ids: &ids,
        globals,
        any: false,
        is_old: false,
    };
    loop {
        let wait = match rounds.round(since, &progress) {
            Ok((after, max_age)) => {
                progress = after;
                since = None;
                max_age.unwrap_or(USUAL_INTERVAL)
            }
            Err(Failure::Follow(error)) if !args.once && is_transient(&error) => {
                globals.warn(format_args!("{place}: {error}; will retry"));
                USUAL_INTERVAL
            }
            Err(Failure::Follow(error)) => return Err(CliError::at(place, error)),
            // Not retried: a second query has other decoys, so the points in both are the matches.
            Err(Failure::Query(error)) => return Err(CliError::at(place, error)),
            Err(Failure::Output(error)) => return Err(error),
        };
        if args.once {
            return output::exit_code(Ok(()), rounds.any);
        }
        let wait = Duration::from_secs(wait.clamp(1, MAX_INTERVAL));
        thread::sleep(args.interval.unwrap_or(wait));
    }
}

/// The candidates as given, and their bytes.
fn read_candidates(
    args: &FollowArgs,
    globals: &Globals,
) -> Result<(Vec<String>, Vec<Vec<u8>>), CliError> {
    let (mut texts, mut ids) = (Vec::new(), Vec::new());
    Input::open(&args.candidates)?.items(&InputArgs::of(args.kind), globals, &mut |item| {
        texts.push(String::from_utf8_lossy(item.text).into_owned());
        ids.push(item.bytes.to_vec());
        Ok(())
    })?;
    if ids.is_empty() {
        return Err(CliError::at(args.candidates.display(), "no candidates"));
    }
    Ok((texts, ids))
}

/// What the mint is asked about matches.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// Whether proofs are spent.
    Spent,
    /// For the signatures on messages of this keyset.
    Signatures(KeysetId),
}

impl Question {
    fn of(args: &FollowArgs) -> Result<Option<Self>, CliError> {
        match (args.kind, args.keyset.as_deref()) {
            _ if !args.confirm => Ok(None),
            (Event::ProofState, None) => Ok(Some(Self::Spent)),
            (Event::BlindSignature, Some(id)) => Ok(Some(Self::Signatures(fetch::keyset(id)?))),
            (Event::BlindSignature, None) => Err(CliError::usage(
                "--confirm with blind_signature requires --keyset",
            )),
            (_, Some(_)) => Err(CliError::usage("--keyset works with blind_signature only")),
            (kind, None) => Err(CliError::usage(format!(
                "--confirm does not work with {kind}"
            ))),
        }
    }

    /// For each candidate, what to print, and whether it makes the exit code 0.
    fn ask(
        &self,
        client: &MintClient,
        matches: &Matches<'_>,
    ) -> Result<Vec<(String, bool)>, QueryError> {
        Ok(match self {
            Self::Spent => {
                let verdicts = client.confirm(matches)?.into_iter().map(Verdict::of);
                verdicts
                    .map(|verdict| (verdict.as_str().to_owned(), verdict.is_match()))
                    .collect()
            }
            Self::Signatures(keyset) => {
                let answer = |restored| match restored {
                    Restored::Signed(signature) => {
                        (format!("signed\t{}", restore::as_json(&signature)), true)
                    }
                    other => (restore::word(&other).to_owned(), false),
                };
                let restored = client.restore(keyset, matches)?;
                restored.into_iter().map(answer).collect()
            }
        })
    }
}

struct Rounds<'a> {
    args: &'a FollowArgs,
    client: &'a MintClient,
    follower: &'a Follower,
    question: Option<&'a Question>,
    texts: &'a [String],
    ids: &'a [Vec<u8>],
    globals: &'a Globals,
    /// Whether anything matched so far.
    any: bool,
    /// Whether the last manifest was old.
    is_old: bool,
}

enum Failure {
    Follow(FollowError),
    Query(QueryError),
    Output(CliError),
}

impl From<FollowError> for Failure {
    fn from(error: FollowError) -> Self {
        Self::Follow(error)
    }
}

impl Rounds<'_> {
    /// Downloads and reports what is new, and stores the bookmark.
    fn round(
        &mut self,
        since: Option<u64>,
        before: &Progress,
    ) -> Result<(Progress, Option<u64>), Failure> {
        let mut replans = 0;
        loop {
            let bookmark = before.bookmark.as_ref();
            let plan = self.follower.plan(self.args.format, since, bookmark)?;
            if self.args.once || bookmark.is_none() {
                announce(&plan, self.globals);
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let limit = now
                .unwrap_or_default()
                .as_secs()
                .saturating_sub(2 * HEARTBEAT);
            let old = plan.written().filter(|&written| written < limit);
            if let Some(written) = old.filter(|_| !self.is_old) {
                let written = utc(written);
                self.globals.warn(format_args!(
                    "the mint's last manifest is of {written}; it should write one every hour, so what is new is missing"
                ));
            }
            self.is_old = old.is_some();
            match self.run_plan(&plan, before.clone()) {
                Err(Failure::Follow(FollowError::Gone { .. })) if replans < REPLANS => replans += 1,
                ran => return Ok((ran?, plan.max_age())),
            }
        }
    }

    fn run_plan(&mut self, plan: &Plan, before: Progress) -> Result<Progress, Failure> {
        let directory = self.args.data_dir.as_deref();
        let audit = directory.filter(|_| self.args.audit);
        let run = self.follower.run_matching(plan, before, audit, self.ids);
        let (all, matches, mut after) = run?;
        let answers = self
            .question
            .map(|question| question.ask(self.client, &matches));
        let answers = answers.transpose().map_err(Failure::Query)?;
        for found in all {
            let answer = answers.as_ref().map(|answers| &answers[found.candidate]);
            self.any |= answer.is_none_or(|(_, is_match)| *is_match);
            if let Some((word, true)) = answer
                && !word.starts_with(Verdict::Pending.as_str())
            {
                self.follower.settle(&mut after, &found);
            }
            let answer = answer.map(|(word, _)| word.as_str());
            print(self.args.kind, &self.texts[found.candidate], found, answer)
                .map_err(|error| Failure::Output(error.into()))?;
        }
        let Unverified { manifests, merges } = after.unverified;
        if (manifests, merges) != (0, 0) {
            self.globals.warn(format_args!(
                "not verified: {manifests} manifests since the bookmark, {merges} merges; the mint no longer serves \
                 them or their parts"
            ));
        }
        if let (Some(directory), Some(bookmark)) = (directory, &after.bookmark) {
            bookmark.store(directory)?;
        }
        Ok(after)
    }
}

fn print(kind: Event, candidate: &str, found: Found, answer: Option<&str>) -> io::Result<()> {
    let what = match found.state {
        "" => kind.as_str(),
        state => state,
    };
    let start = found.start;
    let mut out = io::stdout().lock();
    match found.end {
        Some(end) => write!(out, "{what}\t{candidate}\t{start}-{end}")?,
        None => write!(out, "{what}\t{candidate}\t{start}-open")?,
    }
    match answer {
        Some(answer) => writeln!(out, "\t{answer}")?,
        None => writeln!(out)?,
    }
    out.flush()
}

/// Whether the same request may work later.
fn is_transient(error: &FollowError) -> bool {
    match error {
        FollowError::Fetch(error) => match error {
            FetchError::Refused(
                RejectReason::Status { status } | RejectReason::Mint(MintError { status, .. }),
            ) => *status == 429 || *status >= 500,
            FetchError::Transport(_) | FetchError::Deadline { .. } | FetchError::Cut { .. } => true,
            _ => false,
        },
        FollowError::Gone { .. } | FollowError::Stale { .. } => true,
        _ => false,
    }
}
