//! Logins: TLS, passwords, and servers with a false identity.

use std::net::TcpListener;
use std::path::PathBuf;

use nutfilter_mint::MintType;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::cluster::{Cluster, Writer};
use crate::sql::tables;
use crate::support::open;

/// `mint` must use TLS, and `plain` may use it.
const HBA: &str = "
    local all all trust
    hostssl all mint 127.0.0.1/32 scram-sha-256
    host all plain 127.0.0.1/32 scram-sha-256
";

/// A certificate authority, with a self-signed certificate like those of `openssl req -x509`.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key: String,
}

impl Authority {
    fn new(names: &[&str]) -> Self {
        let names = names.iter().map(|&name| name.to_owned());
        let mut parameters = CertificateParams::new(Vec::from_iter(names)).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        let (pem_of_key, issuer) = (key.serialize_pem(), Issuer::new(parameters, key));
        Self { issuer, pem, key: pem_of_key }
    }

    /// A key and a certificate for a name.
    fn vouch(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (key.serialize_pem(), certificate.pem())
    }
}

/// A server with TLS for `localhost`, and files with its authority and another one.
struct Server {
    cluster: Cluster,
    port: u16,
    files: TempDir,
}

impl Server {
    fn start() -> Option<Self> {
        let authority = Authority::new(&[]);
        let (key, certificate) = authority.vouch("localhost");
        Self::with(&key, &certificate, &authority.pem)
    }

    /// Starts a server with a key and a certificate. Clients that use `right` trust it.
    fn with(key: &str, certificate: &str, right: &str) -> Option<Self> {
        let other = Authority::new(&[]);
        let vacant = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let port = vacant.unwrap().port();
        let files = [("server.key", key), ("server.crt", certificate), ("pg_hba.conf", HBA)];
        let cluster = Cluster::start(Some(port), &files)?;
        let owner = Writer::connect(&cluster.url("postgres"));
        owner.run(
            "CREATE ROLE mint LOGIN SUPERUSER PASSWORD 'hunter2';
             CREATE ROLE plain LOGIN SUPERUSER PASSWORD 'hunter2'",
        );
        owner.run("CREATE DATABASE mint");
        Writer::connect(&cluster.url("mint")).run(tables(MintType::Cdk));
        let files = tempfile::tempdir().unwrap();
        for (name, pem) in [("right.pem", right), ("wrong.pem", &other.pem), ("empty.pem", "")] {
            std::fs::write(files.path().join(name), pem).unwrap();
        }
        Some(Self { cluster, port, files })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Opens the database with this login and name of the host. The error must not contain a secret.
    fn open(&self, login: &str, options: &str) -> Result<(), String> {
        let port = self.port;
        let url = format!("postgres://{login}:{port}/mint?hostaddr=127.0.0.1&{options}");
        let result = open(&url, None);
        if let Err(error) = &result {
            let all = format!("{error} {error:?}");
            assert!(!all.contains("hunter"), "{all}");
        }
        result.map(|_| ()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refuses(&self, login: &str, options: &str, said: &str) {
        let error = self.open(login, options).unwrap_err();
        assert!(error.contains(said), "{options}: {error}");
    }
}

#[test]
fn sslmode_decides_how_a_server_is_verified() {
    let Some(server) = Server::start() else {
        return;
    };
    let roots = |name: &str| format!("&sslrootcert={}", server.file(name).display());
    let (right, wrong) = (roots("right.pem"), roots("wrong.pem"));
    let mint = "mint:hunter2@localhost";
    for mode in ["require", "verify-full", "verify-ca"] {
        let mode = format!("sslmode={mode}");
        let with = |more: &str| mode.clone() + more;
        server.open(mint, &with(&right)).unwrap();
        server.refuses(mint, &with(&wrong), "certificate");
        // Mozilla's roots did not sign it either.
        server.refuses(mint, &with("&sslrootcert=system"), "certificate");
        let (empty, none) = (with(&roots("empty.pem")), with(&roots("none.pem")));
        server.refuses(mint, &empty, "no certificate");
        server.refuses(mint, &none, "none.pem");
    }
    for mode in ["verify-ca", "verify-full"] {
        server.refuses(mint, &format!("sslmode={mode}"), "certificate");
    }
    // As in libpq, only `verify-full` requires the name, and `require` verifies nothing without roots.
    let full = format!("sslmode=verify-full{right}");
    server.refuses("mint:hunter2@db.example", &full, "not valid for name");
    for options in [
        "sslmode=require",
        &format!("sslmode=require{right}"),
        &format!("sslmode=verify-ca{right}"),
    ] {
        server.open("mint:hunter2@db.example", options).unwrap();
    }
    // Options without verification still use TLS.
    server.open(mint, "").unwrap();
    server.open(mint, "sslmode=prefer").unwrap();
    server.open(mint, "channel_binding=require").unwrap();
    server.refuses(mint, "sslmode=disable", "no pg_hba.conf entry");
    server.open("plain:hunter2@localhost", "sslmode=disable").unwrap();

    for (login, options, said) in [
        ("mint:hunter3", "", "password authentication failed"),
        ("mint", "", "password"),
        ("nobody:hunter2", "", "pg_hba.conf"),
        ("mint:hunter2", "dbname=nothing", "does not exist"),
    ] {
        server.refuses(&format!("{login}@localhost"), options, said);
    }

    server.cluster.stop("fast");
    server.cluster.start_again_without_tls();
    let options = format!("sslmode=require{right}");
    server.refuses("plain:hunter2@localhost", &options, "does not support TLS");
    server.open("plain:hunter2@localhost", "").unwrap();
}

#[test]
fn self_signed_certificate_is_trusted_if_given() {
    let Authority { key, pem, .. } = Authority::new(&["localhost"]);
    let Some(server) = Server::with(&key, &pem, &pem) else {
        return;
    };
    let options = |mode: &str, roots: &str| {
        let roots = server.file(roots);
        format!("sslmode={mode}&sslrootcert={}", roots.display())
    };
    let mint = "mint:hunter2@localhost";
    for mode in ["require", "verify-ca", "verify-full"] {
        let (right, wrong) = (options(mode, "right.pem"), options(mode, "wrong.pem"));
        server.open(mint, &right).unwrap();
        server.refuses(mint, &wrong, "certificate");
    }
    let full = options("verify-full", "right.pem");
    server.refuses("mint:hunter2@db.example", &full, "not valid for name");
}

#[test]
fn errors_of_servers_that_do_not_answer_do_not_contain_the_password() {
    let vacant = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://mint:hunter2@{vacant}/mint");
    let error = open(&url, None).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter"));
    // A peer that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url =
        format!("postgres://mint:hunter2@{}/mint?connect_timeout=1", silent.local_addr().unwrap());
    let error = open(&url, None).unwrap_err();
    assert!(error.to_string().contains("timed out after 3 s"), "{error}");
}
