"""The examples in contrib/ and the role of the operator's guide, tried as far as this machine has the programs."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest
import yaml

from e2e.conftest import ROOT
from e2e.scenario import need
from e2e.service_under_test import Address, Service, free_port, tail, wait_until
from e2e.wallet_checks import fresh_items

pytestmark = pytest.mark.contrib
CONTRIB = ROOT / "contrib"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def documents():
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))


def test_systemd_unit(work):
    need("systemd-analyze")
    # It checks that the program exists, which it need not.
    unit = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", (CONTRIB / "systemd/nutfilter.service").read_text(),
                  flags=re.MULTILINE)
    (work / "nutfilter.service").write_text(unit)
    said = run("systemd-analyze", "verify", "--man=no", work / "nutfilter.service")[1]
    assert [line for line in said.splitlines() if "nutfilter.service" in line] == []


def environment_files():
    """The lines of variables in contrib/ and in the tutorial, those in comments too."""
    tutorial = (ROOT / "docs/tutorial-mint.md").read_text()
    for text in ((CONTRIB / "systemd/nutfilter.env").read_text(), re.search(r"```sh\n(MINT_.*?)```", tutorial, re.S)[1]):
        lines = [line.removeprefix("#") for line in text.splitlines()]
        lines = [line for line in lines if re.match("[A-Z_]+=", line)]
        # A variable that occurs twice, once in a comment, is two files.
        for order in (lines, lines[::-1]):
            yield list({line.split("=")[0]: line for line in order}.values())


def test_systemd_and_a_shell_read_the_same_environment(binary, work):
    generator = pathlib.Path("/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator")
    need(generator if generator.exists() else "systemd")
    (work / "environment.d").mkdir()
    for lines in environment_files():
        file = work / "environment.d/nutfilter.conf"
        file.write_text("\n".join(lines) + "\n")
        names = [line.split("=")[0] for line in lines]
        seen = [subprocess.run(command, env={"PATH": os.environ["PATH"], **clear}, capture_output=True, text=True, check=True).stdout
                for command, clear in (([generator], {"XDG_CONFIG_HOME": str(work)}), (["sh", "-c", f". {file}; set"], {}))]
        read = [dict(re.findall(r"^(\w+)=(.*)$", text, re.M)) for text in seen]
        read = [{name: variables[name].strip("'\"") for name in names} for variables in read]
        assert read[0] == read[1]
        # And the command takes these values: what is wrong is the database only, which is not there.
        done = subprocess.run([binary, "serve", "--check-config"], env=read[0], capture_output=True, text=True, check=False)
        assert all(f"{name}=" in done.stdout for name in names), done.stderr
        assert "password" not in done.stdout


def test_rules_and_dashboard_name_existing_metrics(binary, make_mint, work):
    service = Service(binary, make_mint("cdk", "sqlite").location, work, output=None)
    service.start()
    try:
        wait_until(service.ready, 30, "ready")
        # Both are counted a moment after: a request when it has ended, filters when all of a refresh are served.
        wait_until(lambda: {"http_requests", "oldest_filter"} <= set(re.findall("http_requests|oldest_filter", service.metrics())),
                   30, "requests and filters are counted")
        metrics = service.metrics()
        known = set(re.findall(r"^# TYPE (\w+)", metrics, re.M))
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, check=False)
            assert checked.returncode == 0 and not checked.stdout + checked.stderr, checked
    finally:
        service.kill()
    for file in ("prometheus/alerts.yml", "grafana.json"):
        named = set(re.findall(r"(?:nutfilter|process)_[a-z_]+", (CONTRIB / file).read_text()))
        named = {re.sub("_(count|bucket)$", "", name) if "_seconds_" in name else name for name in named}
        assert named and named - known == set(), file


def test_prometheus_rules():
    need("promtool")
    code, said = run("promtool", "check", "rules", CONTRIB / "prometheus/alerts.yml")
    assert code == 0, said
    code, said = run("promtool", "check", "config", "--syntax-only", CONTRIB / "prometheus/scrape.yml")
    assert code == 0, said
    for tests in CONTRIB.glob("prometheus/*test*.yml"):
        code, said = run("promtool", "test", "rules", tests)
        assert code == 0, said


def test_container_builds_with_the_pinned_toolchain():
    pinned = re.search(r'^channel = "(.+)"', (ROOT / "rust-toolchain.toml").read_text(), re.MULTILINE)[1]
    assert f"FROM docker.io/library/rust:{pinned}-slim" in (CONTRIB / "Containerfile").read_text()


def test_compose_file():
    compose = yaml.safe_load((CONTRIB / "compose.yaml").read_text())
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in compose["volumes"], f"{name}: {volume}"


@pytest.mark.parametrize("file", ["Caddyfile", "Caddyfile-files"])
def test_caddyfile(file):
    need("caddy")
    code, said = run("caddy", "validate", "--adapter", "caddyfile", "--config", CONTRIB / file)
    assert code == 0, said


@pytest.mark.parametrize("mint_type", ["nutshell", "cdk"])
def test_the_documented_role_is_enough_and_without_it_nothing_can_be_read(mint_type, binary, make_mint, work):
    sql = re.findall(r"^\s*((?:CREATE ROLE|GRANT SELECT).*;)\s*$", documents(), re.MULTILINE)
    mint = make_mint(mint_type, "postgres")
    mint.fill(100)
    cluster = mint.database.cluster
    location = mint.location.replace("owner@", "filters@")
    cluster.sql("DROP ROLE IF EXISTS filters")
    cluster.sql(next(statement for statement in sql if statement.startswith("CREATE ROLE")))
    try:
        check = [binary, "serve", "--check-config", "--mint-database", location]
        assert run(*check)[0] == 2, "a role without rights can read"
        for statement in dict.fromkeys(statement for statement in sql if statement.startswith("GRANT")):
            table = re.search(r" ON (\w+) ", statement).group(1)
            if mint.database.sql(f"SELECT to_regclass('{table}')"):
                mint.database.sql(statement)
        code, said = run(*check)
        assert code == 0 and mint_type in said, said
        service = Service(binary, location, work)
        service.start()
        service.wait_served(("spent", mint.keysets[0]))
        wait_until(service.ready, 30, "ready")
        service.stop()
        assert service.complaints() == []
    finally:
        mint.database.sql("DROP OWNED BY filters; DROP ROLE filters;")


class FakeMint(http.server.BaseHTTPRequestHandler):
    """In the place of the mint itself."""

    answers = {"/v1/info": b'{"name":"mint","nuts":{"4":{"methods":[],"disabled":false},"5":{"methods":[],"disabled":false}},"time":1}',
               "/v1/keys": b"the mint itself"}

    def do_GET(self):
        body = self.answers.get(self.path, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def running(command, port, log):
    """A proxy; yields its address once it listens."""
    with open(log, "wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output)
    try:
        def listens():
            assert process.poll() is None, tail(log)
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), 1).close() or True
        wait_until(listens, 20, f"{command[0]} listens")
        yield Address(port)
    finally:
        process.terminate()
        process.wait(20)


def nginx(work, file, place, mint_port=3338):
    """nginx with a file of contrib/ in front of a service or directory, and the mint."""
    port = free_port()
    site = (CONTRIB / file).read_text()
    site = site.replace("(!-d /var/lib/nutfilter/", f"(!-d {place}/")
    there = (r"root /var/lib/nutfilter;", f"root {place};") if "files" in file else (
        r"server 127\.0\.0\.1:3339;", f"server {place};")
    for pattern, ours in (there, (r"server 127\.0\.0\.1:3338;", f"server 127.0.0.1:{mint_port};"),
                          (r"listen 127\.0\.0\.1:8080;", f"listen 127.0.0.1:{port};")):
        site, count = re.subn(pattern, ours, site)
        assert count == 1, f"contrib/{file} has {count} times {pattern}"
    (work / "site.conf").write_text(site)
    temporary = "".join(f"{name}_temp_path {work}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (work / "nginx.conf").write_text(f"daemon off; pid {work}/nginx.pid; error_log {work}/nginx.log; events {{}}\n"
                                     f"http {{ access_log off; {temporary} include {work}/site.conf; }}\n")
    return running(["nginx", "-e", work / "nginx.log", "-c", work / "nginx.conf"], port, work / "nginx.out")


def caddy(work, file, places):
    """Caddy with a file of contrib/, without certificates, and with our places instead of the usual ones."""
    port = free_port()
    _, site = (CONTRIB / file).read_text().rsplit("mint.example {", 1)
    for usual, ours in places.items():
        assert usual in site
        site = site.replace(usual, str(ours))
    (work / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n\tskip_install_trust\n}\n"
                                    f"http://:{port} {{{site}\n")
    return running(["caddy", "run", "--adapter", "caddyfile", "--config", work / "Caddyfile"], port, work / "caddy.log")


def front(work, file, service, mint_port):
    """The real program with a file of contrib/ in front of a service with an output directory, and the mint."""
    need("nginx" if "nginx" in file else "caddy")
    own = work / file
    own.mkdir(exist_ok=True)
    place = service.output if "files" in file else f"127.0.0.1:{service.address.port}"
    if "nginx" in file:
        return nginx(own, file, place, mint_port)
    usual = "/var/lib/nutfilter" if "files" in file else "127.0.0.1:3339"
    return caddy(own, file, {usual: place, "127.0.0.1:3338": f"127.0.0.1:{mint_port}"})


@contextlib.contextmanager
def fake_mint():
    """Yields its port."""
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeMint)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    try:
        yield upstream.server_port
    finally:
        upstream.shutdown()


def ask(address, path, method="GET", **headers):
    """The status, the headers as they came, and the body."""
    with contextlib.closing(address.connect()) as connection:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, response.msg, response.read()


OLD = "I2yN+iRYfkz/"
FRONTS = ["", "nginx.conf", "nginx-files.conf", "Caddyfile", "Caddyfile-files"]
# What follows `/v1/filter/`, and the status of a GET: in this order once filters are built, and before.
BATTERY = [
    ("spent/{id}", 200, 503), ("issued/{id}", 200, 503), ("spent/{id}?x=1", 200, 503), ("issued/{id}?", 200, 503),
    ("spent/I2yN-iRYfkz_", 200, 503), ("spent/I2yN%2BiRYfkz%2F", 200, 503), ("spent/I2yN+iRYfkz%2f", 200, 503),
    ("issued/I2yN+iRYfkz_", 200, 503), ("spent/%30{rest}", 200, 503), ("spent/{ID}", 400, 503),
    ("spent/00ffffffffffffff", 400, 503), ("issued/00ffffffffffffff", 400, 503), ("spent/I2yN%2FiRYfkzT", 400, 503),
    ("spent/01" + "ab" * 32, 400, 503), ("spent/00", 400, 400), ("spent/{id}.gz", 400, 400), ("spent/{id}x", 400, 400),
    ("spent/.nutfilter-lock", 400, 400), ("spent/%00", 400, 400), ("spent/{id}%00", 400, 400), ("spent/%20", 400, 400),
    ("spent/%C3%A9", 400, 400), ("spent/" + "0" * 200, 400, 400), ("spent/-", 400, 400),
]


def test_battery_of_96_requests(binary, make_mint, work):
    """All fronts give the same answers; the files, which know no keysets, to unknown ones as soon as any filter is built."""
    mint = make_mint("nutshell", "sqlite")
    mint.new_keyset(OLD)
    mint.fill(200, 50)
    key = mint.keysets[0]
    service = Service(binary, mint.location, work, refresh=3600)
    empty = Service(binary, work / "none.sqlite3", work / "empty", refresh=3600)
    wrong, asked = [], 0
    with fake_mint() as mint_port, contextlib.ExitStack() as stack:
        (work / "empty").mkdir()
        for one in (service, empty):
            one.start()
            stack.callback(one.kill)
        service.wait_served(("spent", key))
        wait_until(service.ready, 30, "ready")
        for file in FRONTS:
            for one, column in ((service, 1), (empty, 2)):
                address = stack.enter_context(front(work if one is service else work / "empty", file, one, mint_port)
                                              ) if file else one.address
                for row in BATTERY:
                    path = "/v1/filter/" + row[0].format(id=key, ID=key.upper(), rest=key[1:])
                    expected = row[column]
                    for method in ("GET", "HEAD", "OPTIONS", "POST"):
                        asked += 1
                        answer = verdict(ask(address, path, method, Accept_Encoding="gzip",
                                             Access_Control_Request_Headers="blind-auth"), method, expected,
                                         # These two say nothing of a keyset that is not a file yet, and nginx itself refuses NUL.
                                         may_be=503 if "files" in file and column == 2 else 400,
                                         bare="nginx" in file and "%00" in path)
                        if answer:
                            wrong.append(f"{file or 'service'}, {'built' if column == 1 else 'empty'}: {method} {path}: {answer}")
    assert asked == 5 * 2 * 96 and not wrong, "\n".join(wrong)


def verdict(answer, method, expected, may_be, bare):
    """What is wrong with an answer."""
    status, headers, body = answer
    if bare and status == 400:
        return None
    allowed = {"OPTIONS": [204], "POST": [405]}.get(method, [expected, may_be] if expected == 400 else [expected])
    if status not in allowed:
        return f"{status} and not {allowed}"
    if headers.get_all("access-control-allow-origin") != ["*"]:
        return f"CORS {headers.get_all('access-control-allow-origin')}"
    if method == "OPTIONS":
        names = headers.get("access-control-allow-headers")
        return None if names in ("blind-auth", "*, Authorization") else f"allows {names}"
    if status == 200:
        wanted = {"vary": "Accept-Encoding", "content-encoding": "gzip", "content-type": "application/json"}
        bad = {name: headers.get_all(name) for name, value in wanted.items() if headers.get_all(name) != [value]}
        return f"{bad}" if bad or len(headers.get_all("cache-control")) != 1 else None
    if headers.get_all("cache-control") != ["no-store"] or headers.get("content-type") != "application/json":
        return f"{headers.get_all('cache-control')}, {headers.get('content-type')}"
    code = 12001 if status == 400 else 0
    return None if method == "HEAD" or json.loads(body)["code"] == code else f"{body}"


def test_wallets_of_others_read_the_announced_info(binary, make_mint, work):
    """nutshell's class, cashu-ts, and a parser that takes integers only as keys of `nuts`."""
    with fake_mint() as mint_port:
        service = Service(binary, make_mint("cdk", "sqlite").location, work, refresh=3600, extra=[
            "--mint-api", f"http://127.0.0.1:{mint_port}"])
        service.start()
        try:
            wait_until(service.ready, 30, "ready")
            wait_until(lambda: service.get("/v1/info").status == 200, 30, "the mint's info")
            info = service.get("/v1/info").body
            assert {int(nut) for nut in json.loads(info)["nuts"]} == {4, 5} and json.loads(info)["filters"] == {"supported": True}
            script = ("import { Mint } from '@cashu/cashu-ts'; const mint = new Mint(process.argv[1]);"
                      "const info = await (mint.getLazyMintInfo ?? mint.getInfo).call(mint);"
                      "console.log((info.cache ?? info).name)")
            if (ROOT / "e2e/cashu-ts/node_modules").exists():
                done = subprocess.run(["node", "--input-type=module", "-e", script, service.address.url()], cwd=ROOT / "e2e/cashu-ts",
                                      capture_output=True, text=True, check=False, timeout=60)
                assert done.stdout == "mint\n", done.stderr
        finally:
            service.kill()
    models = pytest.importorskip("cashu.core.models")
    read = models.GetInfoResponse.model_validate_json(info)
    assert read.name == "mint" and list(read.nuts) == [4, 5]


@pytest.mark.parametrize("file", ["nginx.conf", "Caddyfile"])
def test_a_proxy_in_front_and_its_fallback_on_the_info_of_the_mint(file, binary, make_mint, work):
    mint = make_mint("cdk", "sqlite")
    mint.fill(2000, 500)
    path = f"/v1/filter/spent/{mint.keysets[0]}"
    with fake_mint() as mint_port:
        for way in ("announced", "without MINT_API", "the mint cannot be fetched", "hangs", "down"):
            extra = {"announced": mint_port, "the mint cannot be fetched": 1}.get(way)
            extra = ["--mint-api", f"http://127.0.0.1:{extra}"] if extra else []
            service = Service(binary, mint.location, work, refresh=3600, extra=extra)
            try:
                if way != "down":
                    service.start()
                    service.wait_served(("spent", mint.keysets[0]))
                if way == "announced":
                    wait_until(lambda: service.get("/v1/info").status == 200, 30, "the mint's info")
                if way == "hangs":
                    service.process.send_signal(signal.SIGSTOP)
                with front(work, file, service, mint_port) as address:
                    for _ in range(2):
                        status, _, body = ask(address, "/v1/info")
                        assert status == 200, (way, status, body)
                        assert ("filters" in json.loads(body)) == (way == "announced"), way
                    if way == "announced":
                        same_answers(address, service.address, path)
                        for private in ("/metrics", "/ready", "/health"):
                            assert ask(address, private)[0] == 404, f"{private} is public"
                        assert ask(address, "/v1/keys")[2] == b"the mint itself"
            finally:
                service.kill()


def same_answers(proxy, service, path):
    """A proxy changes nothing of what the service answers."""
    for form in ("identity", "gzip"):
        (_, ours, body), (_, theirs, direct) = (ask(address, path, Accept_Encoding=form) for address in (proxy, service))
        assert body == direct
        for name in ("etag", "content-type", "content-encoding", "cache-control", "access-control-allow-origin"):
            assert ours.get(name) == theirs.get(name), f"{name} for {form}"
        assert ask(proxy, path, Accept_Encoding=form, If_None_Match=ours.get("etag"))[0] == 304


@pytest.mark.parametrize("file", ["nginx-files.conf", "Caddyfile-files"])
def test_a_web_server_over_the_files(file, binary, make_mint, work):
    """As from a timer: nothing of ours runs when the files are fetched."""
    mint = make_mint("nutshell", "sqlite")
    mint.fill(2000, 500)
    service = Service(binary, mint.location, work)
    code, said = run(binary, "serve", "--mint-database", mint.location, "--output", service.output, "--once")
    assert code == 0, said
    path = f"/v1/filter/spent/{mint.keysets[0]}"
    with fake_mint() as mint_port, front(work, file, service, mint_port) as address:
        for form, file in (("identity", path), ("gzip", f"{path}.gz")):
            status, headers, body = ask(address, path, Accept_Encoding=form)
            assert status == 200 and body == (service.output / file[1:]).read_bytes() and "max-age" in headers["cache-control"]
        items = work / "items"
        items.write_text(fresh_items(1)[0] + "\n")
        code, said = run(binary, "check", "--mint", address.url(), "--keyset", mint.keysets[0], items)
        assert code == 1 and "absent" in said, said
