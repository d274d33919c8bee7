//! Logins: TLS, passwords, and servers with a false identity.

use std::net::TcpListener;

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

    /// Tries logins and names of the host with options, in which `roots=` names one of the files. The error says this; empty text is
    /// no error.
    fn try_each(&self, rows: &[(&str, &str, &str)]) {
        let roots = format!("sslrootcert={}/", self.files.path().display());
        for (login, options, said) in rows {
            let result = self.open(login, &options.replace("roots=", &roots));
            assert_eq!(result.is_ok(), said.is_empty(), "{login} {options}: {result:?}");
            let error = result.err().unwrap_or_default();
            assert!(error.contains(said), "{login} {options}: {error}");
        }
    }
}

/// A server with a certificate of an authority, and one with a self-signed certificate.
#[test]
fn sslmode_decides_how_a_server_is_verified() {
    let (authority, own) = (Authority::new(&[]), Authority::new(&["localhost"]));
    let (key, certificate) = authority.vouch("localhost");
    let (mint, plain) = ("mint:hunter2@localhost", "plain:hunter2@localhost");
    let other_name = "mint:hunter2@db.example";
    for [key, certificate, right] in
        [[&key, &certificate, &authority.pem], [&own.key, &own.pem, &own.pem]]
    {
        let Some(server) = Server::with(key, certificate, right) else {
            return;
        };
        for mode in ["require", "verify-full", "verify-ca"] {
            for (roots, said) in [
                ("roots=right.pem", ""),
                ("roots=wrong.pem", "certificate"),
                // Mozilla's roots did not sign it either.
                ("sslrootcert=system", "certificate"),
                ("roots=empty.pem", "no certificate"),
                ("roots=none.pem", "none.pem"),
            ] {
                server.try_each(&[(mint, &format!("sslmode={mode}&{roots}"), said)]);
            }
        }
        server.try_each(&[
            (mint, "sslmode=verify-ca", "certificate"),
            (mint, "sslmode=verify-full", "certificate"),
            // As in libpq, only `verify-full` requires the name, and `require` verifies nothing without roots.
            (other_name, "sslmode=verify-full&roots=right.pem", "not valid for name"),
            (other_name, "sslmode=verify-ca&roots=right.pem", ""),
            (other_name, "sslmode=require&roots=right.pem", ""),
            (other_name, "sslmode=require", ""),
            // Options without verification still use TLS.
            (mint, "", ""),
            (mint, "sslmode=prefer", ""),
            (mint, "channel_binding=require", ""),
            (mint, "sslmode=disable", "no pg_hba.conf entry"),
            (plain, "sslmode=disable", ""),
            ("mint:hunter3@localhost", "", "password authentication failed"),
            ("mint@localhost", "", "password"),
            ("nobody:hunter2@localhost", "", "pg_hba.conf"),
            (mint, "dbname=nothing", "does not exist"),
        ]);
        server.cluster.stop("fast");
        server.cluster.start_again_without_tls();
        let options = "sslmode=require&roots=right.pem";
        server.try_each(&[(plain, options, "does not support TLS"), (plain, "", "")]);
    }
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
