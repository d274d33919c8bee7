//! Servers that stop, refuse logins or are untrusted: clear errors without secrets, and a working reading
//! afterwards.

use core::ops::ControlFlow;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use nutfilter_mint::source::{MintSource as _, SourceError};
use nutfilter_mint::{MintType, NoteKind};

use crate::cluster::{Cluster, Writer};
use crate::found::Found;
use crate::router::Router;
use crate::sql::{table, tables};
use crate::support::{V1, both, cdk, insert, open, read, refused};

use NoteKind::{Issued, Spent};

/// A CDK mint's database on its own server, with this many spent notes.
fn cdk_alone(notes: u32) -> Option<(Cluster, String)> {
    let cluster = Cluster::start(None, &[])?;
    Writer::connect(&cluster.url("postgres")).run("CREATE DATABASE mint");
    let url = cluster.url("mint");
    let writer = Writer::connect(&url);
    writer.run(tables(MintType::Cdk));
    writer.run(&format!(
        "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
         SELECT decode('02' || lpad(to_hex(i), 64, '0'), 'hex'), 1, '{V1}', repeat('x', 64), '\\x02', 'SPENT'
         FROM generate_series(1, {notes}) AS i"
    ));
    Some((cluster, url))
}

#[test]
fn stopped_server_is_an_error_then_read_in_full() {
    let Some((cluster, url)) = cdk_alone(300_000) else {
        return;
    };
    let mut source = open(&url, None).unwrap();
    let mut stopped = Found::at_first(|| cluster.stop("immediate"));
    let error = source.read(Spent, false, &mut stopped).unwrap_err();
    assert!(matches!(error, SourceError::Postgres { .. }), "{error}");
    refused(source.keysets(), "connecting");
    cluster.start_again();
    let mut found = Found::default();
    assert_eq!(found.read(&mut source, Spent), (true, 300_000));
    assert_eq!(found.read(&mut source, Spent), (false, 0));
    // Another process may have done anything in between.
    cluster.stop("fast");
    cluster.start_again();
    let add = |index| {
        let writer = Writer::connect(&url);
        writer.run(&insert(MintType::Cdk, Spent, V1, index, true));
    };
    add(0);
    assert_eq!(found.read(&mut source, Spent), (true, 1));
    // After the kill of a backend the server goes on, and gives ids out again.
    let victim = Writer::connect(&url);
    let backend = victim.value("SELECT pg_backend_pid()");
    let status = std::process::Command::new("kill").args(["-9", &backend]).status();
    assert!(status.unwrap().success());
    // Its connection breaks when the server has noticed.
    while victim.try_run("SELECT 1").is_ok() {}
    let start = Instant::now();
    while source.keysets().is_err() {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(25));
    }
    add(1);
    assert_eq!(found.read(&mut source, Spent), (true, 1));
    assert_eq!(found.read(&mut source, Spent), (false, 0));
    // An older volume, with as many notes after others, beyond the lost transactions.
    cluster.stop("fast");
    cluster.copy("data", "saved");
    cluster.start_again();
    (2..5).for_each(add);
    assert_eq!(found.read(&mut source, Spent), (true, 3));
    cluster.stop("fast");
    cluster.copy("saved", "data");
    cluster.start_again();
    (5..8).for_each(add);
    assert_eq!(found.read(&mut source, Spent), (true, 3));
}

#[test]
fn same_change_in_a_transaction_of_the_same_id_hides_no_note() {
    let Some((mut cluster, url)) = cdk_alone(0) else {
        return;
    };
    if !cluster.freeze() {
        return;
    }
    let note = |index, counts| insert(MintType::Cdk, Spent, V1, index, counts);
    let pending = const_hex::encode(crate::support::item(0));
    let settle = format!("UPDATE proof SET state = 'SPENT' WHERE y = '\\x{pending}'");
    let run = |statements: [&str; 2]| {
        let writer = Writer::connect(&url);
        statements.into_iter().for_each(|sql| writer.run(sql));
    };
    // What comes before the change is lost, and something else takes its id.
    let put_back = |lost: &str, next: &str, change: &str, count: usize, expected: (bool, usize)| {
        cluster.stop("fast");
        cluster.copy("data", "saved");
        cluster.start_again();
        run([lost, change]);
        let (mut source, mut found) = (open(&url, None).unwrap(), Found::default());
        assert_eq!(found.read(&mut source, Spent), (true, count));
        for is_next in [true, false] {
            cluster.stop("fast");
            cluster.copy("saved", "data");
            cluster.start_again();
            if is_next {
                run([next, change]);
                assert_eq!(found.read(&mut source, Spent), expected);
            }
        }
    };
    // The first note of all.
    put_back("SELECT pg_current_xact_id()", &note(2, true), &note(1, true), 1, (false, 1));
    // A payment is settled; before it came a note that counts, or another pending one.
    (10..26).for_each(|index| run([&note(index, true), "SELECT 1"]));
    run([&note(0, false), "SELECT 1"]);
    put_back(&note(1, true), &note(2, true), &settle, 18, (true, 1));
    put_back(&note(3, false), &note(4, true), &settle, 17, (false, 1));
}

#[test]
fn standby_is_refused_until_it_is_promoted() {
    let Some((cluster, url)) = cdk_alone(10) else {
        return;
    };
    let mut source = open(&url, None).unwrap();
    read(&mut source, Spent, false).unwrap();
    // A server in recovery that waits for more of the log.
    cluster.stop("fast");
    cluster.write("data/standby.signal", "");
    cluster.start_again();
    for said in ["the server is a standby", "target_session_attrs=read-write"] {
        refused(open(&url, None), said);
        refused(read(&mut source, Spent, false), said);
        refused(source.keysets(), said);
    }
    // Of several hosts the one that can be written to is taken, so here none.
    refused(open(&url.replace("?host=", "?host=/nothing&host="), None), "does not allow writes");
    Writer::connect(&url).value("SELECT pg_promote()");
    let (found, reading) = read(&mut source, Spent, false).unwrap();
    assert_eq!((found.count(), reading.is_whole()), (10, true));
}

#[test]
fn primary_with_highest_timeline_is_read() {
    let Some((cluster, _)) = cdk_alone(10) else {
        return;
    };
    cluster.stop("fast");
    cluster.start_with_standby();
    let directory = cluster.directory().display();
    let [url, other, both, twice] =
        [(".", "5432"), (".", "5433"), ("/nothing,.,.", "1,5432,5433"), (".,.", "5432,5432")].map(
            |(hosts, ports)| {
                let hosts = hosts.replace('.', &directory.to_string());
                format!("host={hosts} port={ports} user=owner dbname=mint")
            },
        );
    let add = |url: &str, index| {
        let writer = Writer::wait_for(url);
        writer.run(&insert(MintType::Cdk, Spent, V1, index, true));
    };
    let mut source = open(&both, None).unwrap();
    let mut count = || read(&mut source, Spent, true).map(|(found, _)| found.count());
    assert_eq!(count().unwrap(), 10);
    // The old primary does not know that another one was promoted.
    cluster.promote_standby();
    add(&other, 1);
    add(&url, 2);
    add(&url, 3);
    assert_eq!(count().unwrap(), 11);
    let (found, _) = read(&mut open(&twice, None).unwrap(), Spent, true).unwrap();
    assert_eq!(found.count(), 12);
    // One address that leads to one of them and then to the other.
    let [old, new] = &cluster.sockets();
    let address = cluster.lead(old);
    let mut one =
        open(&format!("host={} user=owner dbname=mint", address.display()), None).unwrap();
    for (socket, said) in
        [(old, Ok(12)), (new, Ok(11)), (old, Err("is the primary from before")), (new, Ok(11))]
    {
        cluster.lead(socket);
        match (read(&mut one, Spent, true), said) {
            (read, Ok(count)) => assert_eq!(read.unwrap().0.count(), count),
            (read, Err(said)) => refused(read, said),
        }
    }
    cluster.stop_standby();
    refused(count(), "(timeline 00000001) is the primary from before");
    cluster.start_standby_as_primary();
    assert_eq!(count().unwrap(), 11);
    // Another mint's server, and a role that may not ask.
    let Some((another, _)) = cdk_alone(1) else {
        return;
    };
    let hosts = format!("{},{directory}", another.directory().display());
    refused(
        open(&format!("host={hosts} user=owner dbname=mint"), None),
        "different database systems",
    );
    Writer::connect(&url)
        .run("REVOKE EXECUTE ON FUNCTION pg_control_system FROM public; CREATE ROLE plain LOGIN");
    refused(open(&twice.replace("=owner", "=plain"), None), "GRANT EXECUTE");
}

#[test]
fn statements_of_one_reading_that_are_routed_are_refused() {
    let Some((cluster, _)) = cdk_alone(10) else {
        return;
    };
    cluster.stop("fast");
    cluster.start_with_standby();
    let sockets = cluster.sockets();
    for (word, promote, said) in [
        ("COPY", false, "is a standby"),
        ("LIMIT 0", false, "sent to several servers"),
        ("listed.*", false, "is a standby"),
        // The look at the schema proves nothing.
        ("pg_attribute a", false, ""),
        ("COPY", true, "sent to several servers"),
        ("LIMIT 0", false, "sent to several servers"),
    ] {
        if promote {
            cluster.promote_standby();
        }
        let router = Router::start(sockets.clone(), word);
        let url = format!("host={} user=owner dbname=mint", router.directory().display());
        let mut source = open(&url, None).unwrap();
        let read = read(&mut source, Spent, false).map(|(found, _)| found.count());
        let error = read.err().or(source.keysets().err());
        let error = error.map_or_else(String::new, |error| error.to_string());
        assert!(error.contains(said) && error.is_empty() == said.is_empty(), "{word}: {error}");
    }
}

#[test]
fn table_that_a_subscription_fills_is_refused() {
    let Some(database) = cdk() else { return };
    let mut source = database.source();
    let publisher = cdk().expect("a database");
    // It need not be connected.
    database.run(&format!(
        "CREATE SUBSCRIPTION s_{0} CONNECTION 'dbname={1}' PUBLICATION p WITH (connect = false)",
        database.name, publisher.name
    ));
    database.run("CREATE TABLE child (LIKE proof INCLUDING ALL); CREATE TABLE grandchild () INHERITS (child)");
    let add = "DELETE FROM pg_subscription_rel; INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate)
         SELECT oid, t::regclass, 'r' FROM (VALUES ('proof'), ('grandchild')) AS v(t), pg_subscription";
    for (table, is_child) in [("proof", false), ("grandchild", false), ("grandchild", true)] {
        if is_child {
            database.run("ALTER TABLE child INHERIT proof");
        }
        let of = format!("WHERE t = '{table}' AND subname = 's_{}'", database.name);
        database.run(&format!("SET allow_system_table_mods = on; {add} {of}"));
        match table == "proof" || is_child {
            true => refused(read(&mut source, Spent, false), "that a subscription fills"),
            false => drop(read(&mut source, Spent, false).unwrap()),
        }
        read(&mut source, Issued, false).unwrap();
    }
    // A child on another server.
    database.run(&format!(
        "ALTER TABLE child NO INHERIT proof; CREATE EXTENSION postgres_fdw;
         DO $$ BEGIN EXECUTE format(
             'CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
             current_setting('unix_socket_directories'), current_setting('port'), '{}'); END $$;
         CREATE USER MAPPING FOR current_user SERVER other OPTIONS (user 'owner');
         CREATE FOREIGN TABLE elsewhere () INHERITS (proof) SERVER other OPTIONS (table_name 'proof')",
        publisher.name
    ));
    refused(read(&mut source, Spent, false), "or on another server");
    database.run("DROP FOREIGN TABLE elsewhere");
    read(&mut source, Spent, false).unwrap();
    database.run(&format!(
        "ALTER SUBSCRIPTION s_{0} SET (slot_name = NONE); DROP SUBSCRIPTION s_{0}",
        database.name
    ));
}

#[test]
fn tables_of_one_name_need_the_schema() {
    let Some(database) = cdk() else { return };
    database.add(Spent, 0);
    database.run(&format!(
        "CREATE SCHEMA mine; SET search_path = mine; {}; {}",
        tables(MintType::Cdk),
        insert(MintType::Cdk, Spent, V1, 1, true) + &insert(MintType::Cdk, Spent, V1, 2, true)
    ));
    refused(open(&database.url, None), "exists in several schemas: mine, public; add schema=NAME");
    for (schema, count) in [("public", 1), ("mine", 2)] {
        let url = format!("{}&schema={schema}", database.url);
        let (found, _) = read(&mut open(&url, None).unwrap(), Spent, false).unwrap();
        assert_eq!(found.count(), count, "{schema}");
    }
    let url = database.url.clone() + "&schema=nothing";
    refused(open(&url, None), "unknown mint schema");
}

#[test]
fn reading_does_not_block_writers() {
    let Some(database) = cdk() else { return };
    database.run(&format!(
        "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
         SELECT decode('03' || lpad(to_hex(i), 64, '0'), 'hex'), 1, '{V1}', 'x', '\\x02', 'PENDING'
         FROM generate_series(1, 100000) AS i;
         UPDATE proof SET state = 'SPENT' WHERE get_byte(y, 32) <> 7"
    ));
    let writer = database.another_writer();
    // Any wait is an error.
    writer.run("SET lock_timeout = '1ms'");
    let mut has_written = false;
    let mut during = Found::at_first(|| {
        writer.run(&insert(MintType::Cdk, Spent, V1, 1, true));
        writer.run("UPDATE proof SET witness = 'w' WHERE get_byte(y, 32) = 9");
        writer.run("UPDATE proof SET state = 'SPENT' WHERE get_byte(y, 32) = 7");
        writer.run("DELETE FROM proof WHERE get_byte(y, 32) = 11");
        writer.run("BEGIN; SELECT 1 FROM proof WHERE get_byte(y, 32) = 5 FOR UPDATE; COMMIT");
        has_written = true;
    });
    let mut source = database.source();
    let reading = source.read(Spent, false, &mut during).unwrap();
    drop(during);
    assert!(has_written && reading.is_whole());
    // What was written meanwhile is new, whether or not this reading saw it.
    let (found, reading) = read(&mut source, Spent, false).unwrap();
    assert!(found.count() > 300 && !reading.is_whole());
}

#[test]
fn stopped_reading_leaves_nothing_open() {
    let Some(database) = cdk() else { return };
    database.run(&insert(MintType::Cdk, Spent, V1, 1, true));
    let mut source = database.source();
    let mut broken = Found::with(|| ControlFlow::Break(()));
    let error = source.read(Spent, false, &mut broken).unwrap_err();
    assert!(matches!(error, SourceError::Stopped));
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = '{}' AND application_name = 'nutfilter'",
        database.name
    );
    let start = Instant::now();
    while database.writer.value(&open) != "0" {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn host_that_hangs_stops_no_reading() {
    let Some(database) = cdk() else { return };
    let hangs = tempfile::tempdir().unwrap();
    let _listener = UnixListener::bind(hangs.path().join(".s.PGSQL.5432")).unwrap();
    let directory = Cluster::shared().unwrap().directory().display();
    let hosts = format!("{},{directory} port=5432,5432", hangs.path().display());
    let url = format!("host={hosts} user=owner dbname={} connect_timeout=1", database.name);
    let mut source = open(&url, None).unwrap();
    read(&mut source, Spent, false).unwrap();
}

/// As if its disk did not answer.
#[test]
fn server_that_hangs_is_waited_for() {
    let Some((cluster, url)) = cdk_alone(1_000) else {
        return;
    };
    let mut source = open(&url, None).unwrap();
    let pid = std::fs::read_to_string(cluster.data().join("postmaster.pid")).unwrap();
    let pid = pid.lines().next().unwrap();
    let signal = |signal: &str| {
        for (program, args) in [("pkill", &[signal, "-P", pid][..]), ("kill", &[signal, pid])] {
            let status = std::process::Command::new(program).args(args).status();
            assert!(status.unwrap().success());
        }
    };
    signal("-STOP");
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| Found::default().read(&mut source, Spent));
        std::thread::sleep(Duration::from_secs(1));
        let waits = !reading.is_finished();
        signal("-CONT");
        assert!(waits);
        assert_eq!(reading.join().unwrap(), (true, 1_000));
    });
}

#[test]
fn missing_or_forbidden_columns_are_named() {
    for database in both() {
        let mint = database.mint;
        let unopened = || open(&database.url, None);
        let empty = database.url.replace(&format!("/{}?", database.name), "/postgres?");
        for table in ["`proofs_used`", "`proof`"] {
            refused(open(&empty, None), table);
        }
        let role = format!("reader_of_{}", database.name);
        database.run(&format!("CREATE ROLE {role} LOGIN"));
        let url = database.url.replace("owner@", &format!("{role}@"));
        let columns = match mint {
            MintType::Nutshell => [
                ("keysets", "id, unit, active, input_fee_ppk", "unit"),
                ("proofs_used", "id, y", "y"),
                ("promises", "id, b_, c_", "c_"),
            ],
            _ => [
                ("keyset", "id, unit, active, input_fee_ppk", "active"),
                ("proof", "keyset_id, y, state", "state"),
                ("blind_signature", "keyset_id, blinded_message, c", "c"),
            ],
        };
        for (table, columns, column) in columns {
            let text = open(&url, None).unwrap_err().to_string();
            assert!(text.contains("GRANT SELECT ("), "{text}");
            database.run(&format!("ALTER TABLE {table} RENAME {column} TO of_old"));
            refused(unopened(), &format!("`{column}` of table `{table}`"));
            database.run(&format!(
                "ALTER TABLE {table} RENAME of_old TO {column};
                 GRANT SELECT ({columns}) ON {table} TO {role}"
            ));
        }
        database.add(Issued, 0);
        // Without a grant on xmin it works, but reads everything each time.
        let mut source = open(&url, None).unwrap();
        source.keysets().unwrap();
        let is_whole = |source: &mut _| read(source, Issued, false).unwrap().1.is_whole();
        assert!(is_whole(&mut source) && is_whole(&mut source));
        let [table, ..] = table(mint, Issued);
        for (change, whole) in [
            (format!("GRANT SELECT (xmin) ON {table} TO {role}"), [true, false]),
            (format!("REVOKE SELECT (xmin) ON {table} FROM {role}"), [true, true]),
        ] {
            database.run(&change);
            assert_eq!([is_whole(&mut source), is_whole(&mut source)], whole, "{change}");
        }
        // Silently filtered rows would be missing from the filter.
        database.run(&format!(
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
             CREATE POLICY larger ON {table} FOR SELECT USING (amount > 1)"
        ));
        refused(read(&mut source, Issued, false), "row-level security");
        // New rows of a view cannot be found.
        database.run(&format!(
            "ALTER TABLE {table} RENAME TO real; CREATE VIEW {table} AS SELECT * FROM real"
        ));
        refused(unopened(), &format!("`{table}` is not a table"));
    }
}

#[test]
fn column_of_wrong_type_is_named() {
    let Some(database) = cdk() else { return };
    database.run("ALTER TABLE proof ALTER COLUMN y TYPE TEXT USING encode(y, 'hex')");
    refused(open(&database.url, None), "`y` of table `proof` has type text, expected bytea");
    refused(open(&database.url, Some(MintType::Nutshell)), "table `proofs_used` is missing");
}

#[test]
fn table_truncated_before_lock_is_not_taken_for_empty() {
    let Some(database) = cdk() else { return };
    (0..9).for_each(|index| database.add(Spent, index));
    let (mut source, writer) = (database.source(), database.another_writer());
    writer.run(
        "BEGIN; CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM proof;
         TRUNCATE proof; INSERT INTO proof SELECT * FROM kept",
    );
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| read(&mut source, Spent, true).unwrap().0.count());
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'proof'::regclass";
        let start = Instant::now();
        while database.writer.value(waiting) == "0" {
            assert!(start.elapsed() < Duration::from_secs(9), "it does not wait for the table");
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.run("COMMIT");
        assert_eq!(reading.join().unwrap(), 9);
    });
}

#[test]
fn altered_table_is_waited_for_not_longer_than_the_limit() {
    let Some(database) = cdk() else { return };
    let mut source = database.source();
    let writer = database.another_writer();
    writer.run("BEGIN; ALTER TABLE proof ADD COLUMN more TEXT");
    let start = Instant::now();
    let said = "locking the table: canceling statement due to lock timeout";
    refused(read(&mut source, Spent, false), said);
    let waited = start.elapsed().as_secs();
    assert!((9..60).contains(&waited), "{waited} s");
    writer.run("COMMIT");
    database.add(Spent, 0);
    assert_eq!(read(&mut source, Spent, false).unwrap().0.count(), 1);
}
