//! Being let in: TLS, passwords, and servers that are somebody else.

use std::net::TcpListener;
use std::path::PathBuf;

use nutfilter_mint::MintType;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::support::{Cluster, Writer, open, tables};

/// `mint` gets in by TLS alone, `plain` with and without.
const HBA: &str = "
    local all all trust
    hostssl all mint 127.0.0.1/32 scram-sha-256
    host all plain 127.0.0.1/32 scram-sha-256
";

/// Somebody who vouches for servers.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        Self { issuer, pem }
    }

    /// A key and a certificate for a name.
    fn vouch(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (key.serialize_pem(), certificate.pem())
    }
}

/// A server with TLS for `localhost`, and files with the authority that vouches for it and another.
struct Server {
    cluster: Cluster,
    port: u16,
    files: TempDir,
}

impl Server {
    fn start() -> Option<Self> {
        let (authority, other) = (Authority::new(), Authority::new());
        let (key, certificate) = authority.vouch("localhost");
        let vacant = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let port = vacant.unwrap().port();
        let files = [
            ("server.key", key.as_str()),
            ("server.crt", &certificate),
            ("pg_hba.conf", HBA),
        ];
        let cluster = Cluster::start(Some(port), &files)?;
        let owner = Writer::connect(&cluster.url("postgres"));
        owner.run(
            "CREATE ROLE mint LOGIN SUPERUSER PASSWORD 'hunter2';
             CREATE ROLE plain LOGIN SUPERUSER PASSWORD 'hunter2'",
        );
        owner.run("CREATE DATABASE mint");
        Writer::connect(&cluster.url("mint")).run(tables(MintType::Cdk));
        let files = tempfile::tempdir().unwrap();
        for (name, pem) in [("right.pem", &authority.pem), ("wrong.pem", &other.pem)] {
            std::fs::write(files.path().join(name), pem).unwrap();
        }
        std::fs::write(files.path().join("empty.pem"), "").unwrap();
        Some(Self {
            cluster,
            port,
            files,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Opens the database as a user, at a host of this name. The error has no secret in it.
    fn open(&self, user: &str, host: &str, options: &str) -> Result<(), String> {
        let url = format!(
            "postgres://{user}@{host}:{}/mint?hostaddr=127.0.0.1&{options}",
            self.port
        );
        let result = open(&url, None);
        if let Err(error) = &result {
            let all = format!("{error} {error:?}");
            assert!(!all.contains("hunter"), "{all}");
        }
        result.map(|_| ()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refuses(&self, user: &str, host: &str, options: &str, said: &str) {
        let error = self.open(user, host, options).unwrap_err();
        assert!(error.contains(said), "{options}: {error}");
    }
}

#[test]
fn a_server_is_believed_as_far_as_sslmode_says() {
    let Some(server) = Server::start() else {
        return;
    };
    let roots = |name: &str| format!("&sslrootcert={}", server.file(name).display());
    let (right, wrong) = (roots("right.pem"), roots("wrong.pem"));
    let mint = "mint:hunter2";
    for mode in ["require", "verify-full", "verify-ca"] {
        let mode = format!("sslmode={mode}");
        server
            .open(mint, "localhost", &(mode.clone() + &right))
            .unwrap();
        server.refuses(mint, "localhost", &(mode.clone() + &wrong), "certificate");
        // Mozilla's do not vouch for it either.
        server.refuses(mint, "localhost", &mode, "certificate");
        server.refuses(
            mint,
            "localhost",
            &(mode.clone() + &roots("empty.pem")),
            "no certificate",
        );
        server.refuses(mint, "localhost", &(mode + &roots("none.pem")), "none.pem");
    }
    for mode in ["require", "verify-full"] {
        let options = format!("sslmode={mode}{right}");
        server.refuses(mint, "db.example", &options, "not valid for name");
    }
    server
        .open(mint, "db.example", &format!("sslmode=verify-ca{right}"))
        .unwrap();
    // What asks for no verification gets in by TLS all the same.
    server.open(mint, "localhost", "").unwrap();
    server.open(mint, "localhost", "sslmode=prefer").unwrap();
    server
        .open(mint, "localhost", "channel_binding=require")
        .unwrap();
    server.refuses(mint, "localhost", "sslmode=disable", "no pg_hba.conf entry");
    server
        .open("plain:hunter2", "localhost", "sslmode=disable")
        .unwrap();

    server.cluster.stop("fast");
    server.cluster.start_again_without_tls();
    let options = format!("sslmode=require{right}");
    server.refuses(
        "plain:hunter2",
        "localhost",
        &options,
        "does not support TLS",
    );
    server.open("plain:hunter2", "localhost", "").unwrap();
}

#[test]
fn why_one_is_not_let_in_is_said_without_the_password() {
    let Some(server) = Server::start() else {
        return;
    };
    server.refuses(
        "mint:hunter3",
        "localhost",
        "",
        "password authentication failed",
    );
    server.refuses("mint", "localhost", "", "password");
    server.refuses("nobody:hunter2", "localhost", "", "pg_hba.conf");
    server.refuses(
        "mint:hunter2",
        "localhost",
        "dbname=nothing",
        "does not exist",
    );
    let vacant = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("postgres://mint:hunter2@{vacant}/mint");
    let error = open(&url, None).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter"));
    // Somebody who says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://mint:hunter2@{}/mint?connect_timeout=1",
        silent.local_addr().unwrap()
    );
    let error = open(&url, None).unwrap_err();
    assert!(
        error.to_string().contains("no answer in 3 seconds"),
        "{error}"
    );
}
