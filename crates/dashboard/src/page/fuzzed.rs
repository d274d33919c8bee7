//! How well it is fuzzed: one line a target.

use maud::{Markup, html};

use super::figure::Figure;
use super::table::{Cell, Row, Table};
use crate::fuzzing::{Campaign, Corpus, Counts};
use crate::number::{duration, percent, whole};

/// The newest campaign.
#[must_use]
pub fn draw(campaigns: &[Campaign]) -> Markup {
    let Some(campaign) = campaigns.last() else {
        return html! { p { "No campaign is recorded yet." } };
    };
    let figure = Figure {
        id: "fuzzing".to_owned(),
        title: "Fuzz targets".to_owned(),
        caption: caption(campaign),
        legend: Vec::new(),
        drawings: None,
        table: table(campaign),
        choices: Vec::new(),
    };
    html! {
        p { (sentence(campaign)) }
        (figure.draw())
    }
}

/// How well it is fuzzed, in a sentence.
#[must_use]
pub fn glance(campaigns: &[Campaign]) -> Option<Markup> {
    let campaign = campaigns.last()?;
    Some(html! {
        strong { "Fuzzing: " (duration(campaign.cpu_seconds)) " of CPU time" }
        ", " (whole(campaign.executions)) " executions of " (campaign.targets.len()) " targets; "
        @match campaign.finds_on_this_code {
            0 => { "nothing that fails is known of the newest sources." }
            1 => { "one input fails on the newest sources." }
            finds => { (finds) " inputs fail on the newest sources." }
        }
    })
}

fn share((reached, there): (u64, u64)) -> f64 {
    reached as f64 / there.max(1) as f64
}

fn sentence(campaign: &Campaign) -> Markup {
    html! {
        strong { (campaign.targets.len()) " targets, " (duration(campaign.cpu_seconds)) " of CPU time, "
            (whole(campaign.executions)) " executions" }
        ", of these " (duration(campaign.on_this_code.cpu_seconds)) " and " (whole(campaign.on_this_code.executions))
        " on the newest sources; "
        @match campaign.finds_on_this_code {
            0 => { "nothing that fails was found on them." }
            1 => { "one input that fails was found on them." }
            finds => { (finds) " inputs that fail were found on them." }
        }
        @if let Some(total) = &campaign.coverage.total {
            " The corpora reach " (percent(share(total.regions))) " of the library's regions and " (percent(share(total.lines))) " of its lines."
        } @else if let Some(missing) = &campaign.coverage.missing {
            " Coverage: " (missing) "."
        }
    }
}

fn caption(campaign: &Campaign) -> Markup {
    html! {
        p {
            "CPU time is what the fuzzers used; \"since a new edge\" is CPU time of that target since fuzzing last found a branch that it had not seen. "
            "All run with AddressSanitizer, debug assertions and overflow checks. " (campaign.machine.cpu) ", " (campaign.machine.cores)
            " cores, " (campaign.compiler)
            @if let Some(revision) = &campaign.revision { ", commit " code { (revision.chars().take(7).collect::<String>()) } }
            ", " (campaign.written.split('T').next().unwrap_or_default()) "."
        }
    }
}

fn table(campaign: &Campaign) -> Table {
    let number = |value: u64| Cell::number(value as f64, whole(value));
    let seconds = |value: f64| Cell::number(value, duration(value));
    let known = |value: Option<u64>| {
        Cell::known(value.map(|value| value as f64), |value| whole(value as u64))
    };
    let regions =
        |counts: Option<&Counts>| Cell::known(counts.map(|counts| share(counts.regions)), percent);
    let per_second = |executions: u64, seconds: f64| {
        (seconds > 0.0).then(|| (executions as f64 / seconds).round() as u64)
    };
    let mut rows: Vec<Row> = Vec::new();
    for (name, target) in &campaign.targets {
        let minimised = target.minimised_corpus.as_ref();
        let corpus: &Corpus = minimised.unwrap_or(&target.corpus);
        rows.push(Row {
            series: None,
            cells: vec![
                Cell::text(name),
                number(campaign.failures(name) as u64),
                number(target.executions),
                known(target.executions_per_cpu_second),
                seconds(target.cpu_seconds),
                known(target.edges),
                seconds(target.cpu_seconds_since_last_new_edge),
                regions(campaign.coverage.by_target.get(name)),
                number(corpus.files),
                number(corpus.bytes),
            ],
        });
    }
    let all = || campaign.targets.values();
    let corpora = || all().map(|target| target.minimised_corpus.as_ref().unwrap_or(&target.corpus));
    rows.push(Row {
        series: None,
        cells: vec![
            Cell::text("all"),
            number(campaign.finds_on_this_code),
            number(campaign.executions),
            known(per_second(campaign.executions, campaign.cpu_seconds)),
            seconds(campaign.cpu_seconds),
            Cell::text(""),
            Cell::text(""),
            regions(campaign.coverage.total.as_ref()),
            number(corpora().map(|corpus| corpus.files).sum()),
            number(corpora().map(|corpus| corpus.bytes).sum()),
        ],
    });
    Table {
        columns: vec![
            "target",
            "failures",
            "executions",
            "a CPU second",
            "CPU time",
            "edges",
            "since a new edge",
            "regions reached",
            "inputs kept",
            "their bytes",
        ],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn each_target_has_its_line_and_all_together_one() {
        let campaign: Campaign = serde_json::from_str(made::CAMPAIGN).unwrap();
        let csv = table(&campaign).csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 2 + 1);
        assert_eq!(
            lines[1],
            "decode,1,100000000,25000,4000,1234,600,0.4,200,30000"
        );
        assert_eq!(
            lines[2],
            "encode,0,23456789,7329,3200.5,900,3200.5,,50,9000"
        );
        assert!(
            lines[3].starts_with("all,1,123456789,17146,7200.5,,,0.98,250,39000"),
            "{}",
            lines[3]
        );
    }

    #[test]
    fn the_sentence_says_how_long_and_what_was_found() {
        let campaign: Campaign = serde_json::from_str(made::CAMPAIGN).unwrap();
        let drawn = draw(&[campaign]).into_string();
        for part in [
            "2 targets, 2 h 0 min",
            "123,456,789 executions",
            "one input that fails",
            "98.0 %",
            "89abcde",
        ] {
            assert!(drawn.contains(part), "{part}");
        }
        assert!(
            draw(&[])
                .into_string()
                .contains("No campaign is recorded yet")
        );
    }
}
