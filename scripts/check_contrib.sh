#!/usr/bin/env bash
# Tries what is in contrib/, as far as this machine has what it takes; what it has not, is said.
#
#   scripts/check_contrib.sh [NUTFILTER]     the program, for a real run behind nginx; target/debug/nutfilter otherwise
#
# Everything listens on 127.0.0.1 and is stopped at the end. Takes some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
nutfilter=${1:-target/debug/nutfilter}

work=$(mktemp -d)
chmod 755 "$work"
finish() {
    # Children that are still there, and no number that somebody else may have by now.
    local process
    for process in $(jobs -p); do kill "$process" 2>/dev/null || true; done
    # It is a grandchild, and says itself who it is.
    if [ -f "$work/postgres/db/postmaster.pid" ]; then kill -INT "$(head -n 1 "$work/postgres/db/postmaster.pid")" || true; fi
    wait || true
    rm -rf "$work"
}
trap finish EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null || { echo "NOT TRIED: there is no $1 here, for $2"; return 1; }; }
# A port that was free a moment ago.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
wait_for() { for _ in $(seq 100); do curl -sf -o "$work/waited" "$1" && return; sleep 0.1; done; fail "$1 does not answer"; }

if has systemd-analyze contrib/systemd/nutfilter.service; then
    # It looks whether the program is there, and it need not be.
    sed 's|^ExecStart=/usr/local/bin/nutfilter|ExecStart=/bin/true|' contrib/systemd/nutfilter.service >"$work/nutfilter.service"
    said=$(systemd-analyze verify --man=no "$work/nutfilter.service" 2>&1 | grep -F nutfilter.service || true)
    [ -z "$said" ] || fail "$said"
    echo "ok: systemd unit"
fi

if python3 -c 'import yaml' 2>/dev/null; then
    python3 - <<'PYTHON'
import re, yaml
rules = [rule for group in yaml.safe_load(open("contrib/prometheus/alerts.yml"))["groups"] for rule in group["rules"]]
book = open("docs/operating.md").read()
for rule in rules:
    for name in re.findall(r"nutfilter_[a-z_]+", rule["expr"]):
        assert f"`{name}`" in book, f"{name} is in no table of docs/operating.md"
compose = yaml.safe_load(open("contrib/compose.yaml"))
for name, service in compose["services"].items():
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in compose["volumes"], (name, volume)
PYTHON
    echo "ok: alarms and compose file are YAML; metrics and volumes exist"
else
    echo "NOT TRIED: there is no yaml module here, for contrib/prometheus/alerts.yml and contrib/compose.yaml"
fi
if has promtool contrib/prometheus/alerts.yml; then promtool check rules contrib/prometheus/alerts.yml; fi
if has caddy contrib/Caddyfile; then caddy validate --adapter caddyfile --config contrib/Caddyfile; fi

[ -x "$nutfilter" ] || fail "there is no $nutfilter to try things with"

# The role of docs/operating.md, on a server of our own: it must be enough, and each column of it needed.
initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1 || true)
if [ -z "$initdb" ]; then
    echo "NOT TRIED: there is no Postgres here, for the role of docs/operating.md"
else
    as_owner() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
    data=$work/postgres
    mkdir "$data"
    if [ "$(id -u)" = 0 ]; then chown postgres "$data"; fi
    as_owner "$initdb" -A trust -U owner -N -D "$data/db" >"$work/initdb.log"
    (cd /; as_owner "${initdb%initdb}postgres" -D "$data/db" -k "$data" -c listen_addresses= -c fsync=off) >"$work/postgres.log" 2>&1 &
    sql() { (cd /; as_owner psql -q -v ON_ERROR_STOP=1 -h "$data" -U owner "$@"); }
    for _ in $(seq 100); do sql -d postgres -c '' 2>/dev/null && break; sleep 0.1; done
    block() { sed -n "s/^    \\($1.*;\\)\$/\\1/p" docs/operating.md; }
    sql -d postgres -c "$(block 'CREATE ROLE')"
    for mint in nutshell cdk; do
        sql -d postgres -c "CREATE DATABASE $mint"
        case $mint in
        nutshell)
            sql -d "$mint" -c "
                CREATE TABLE keysets (id TEXT, unit TEXT, active BOOL, input_fee_ppk INTEGER, seed TEXT);
                CREATE TABLE proofs_used (amount INTEGER, id TEXT, c TEXT, secret TEXT, y TEXT, created TIMESTAMP);
                CREATE TABLE promises (amount INTEGER, id TEXT, b_ TEXT, c_ TEXT, created TIMESTAMP, signed_at TIMESTAMP);
                INSERT INTO keysets VALUES ('00deadbeefc0ffee', 'sat', true, 0, 'seed');"
            ;;
        cdk)
            sql -d "$mint" -c "
                CREATE TABLE keyset (id TEXT, unit TEXT, active BOOL, input_fee_ppk INTEGER);
                CREATE TABLE proof (y BYTEA, amount INTEGER, keyset_id TEXT, secret TEXT, c BYTEA, state TEXT, created_time INTEGER);
                CREATE TABLE blind_signature (blinded_message BYTEA, amount INTEGER, keyset_id TEXT, c BYTEA,
                    created_time INTEGER, signed_time INTEGER);
                CREATE TABLE keyset_amounts (keyset_id TEXT, total_issued INTEGER, total_redeemed INTEGER);
                INSERT INTO keyset VALUES ('00deadbeefc0ffee', 'sat', true, 0);"
            ;;
        esac
        check() { "$nutfilter" serve --check-config --mint-database "postgres:///$mint?user=filters&host=$data" >"$work/checked" 2>&1; }
        if check; then fail "a role without rights may read $mint"; fi
        while read -r grant; do
            table=${grant#* ON } table=${table%% *}
            if [ -n "$(sql -d "$mint" -Atc "SELECT to_regclass('$table')")" ]; then sql -d "$mint" -c "$grant"; fi
        done < <(block 'GRANT SELECT')
        check || fail "the role of docs/operating.md cannot read $mint: $(tail -n 3 "$work/checked")"
        grep -q "of a $mint mint with 1 keysets" "$work/checked" || fail "$mint is not recognised"
        "$nutfilter" --threads 1 serve --mint-database "postgres:///$mint?user=filters&host=$data" --port 0 \
            --log-level debug 2>"$work/served" &
        server=$!
        for _ in $(seq 100); do grep -q ' ready ' "$work/served" && break; sleep 0.1; done
        kill "$server"
        wait "$server" || fail "it ended with $?: $(cat "$work/served")"
        grep -q ' ready ' "$work/served" || fail "$(cat "$work/served")"
        if grep -q -e WARN -e ERROR "$work/served"; then fail "$(cat "$work/served")"; fi
        echo "ok: the read-only role for $mint on Postgres"
    done
fi

has nginx contrib/nginx.conf || exit 0

# The value of a header in the answer that came from a port; nothing if it is not there.
header() { sed -n "s/^$1: //Ip" "$work/head.$2" | tr -d '\r'; }

# A mint of 500 notes, and in the place of the mint itself a server of files.
"$nutfilter" --quiet demo --once --items 500 --keep "$work/mint" >"$work/demo.log"
mkdir -p "$work/mint-api/v1"
echo '{"name":"mint","nuts":{"4":{}}}' >"$work/mint-api/v1/info"
echo 'the mint itself' >"$work/mint-api/v1/keys"
mint_port=$(free_port)
python3 -m http.server "$mint_port" --bind 127.0.0.1 --directory "$work/mint-api" >"$work/mint.log" 2>&1 &
wait_for "http://127.0.0.1:$mint_port/v1/info"
filters_port=$(free_port)
"$nutfilter" serve --mint-database "$work/mint" --mint-api "http://127.0.0.1:$mint_port" \
    --listen "127.0.0.1:$filters_port" --listen "unix:$work/http.sock" --socket-mode 666 2>"$work/filters.log" &
wait_for "http://127.0.0.1:$filters_port/ready"
wait_for "http://127.0.0.1:$filters_port/v1/info"
keyset=00deadbeefc0ffee

for upstream in "127.0.0.1:$filters_port" "unix:$work/http.sock"; do
    port=$(free_port)
    sed -e "s|server 127.0.0.1:3339;.*|server $upstream;|" -e "s|server 127.0.0.1:3338;|server 127.0.0.1:$mint_port;|" \
        -e "s|listen 127.0.0.1:8080;.*|listen 127.0.0.1:$port;|" contrib/nginx.conf >"$work/site.conf"
    cat >"$work/nginx.conf" <<NGINX
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.log;
events {}
http {
    access_log off;
    client_body_temp_path $work/body; proxy_temp_path $work/proxy; fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi; scgi_temp_path $work/scgi;
    include $work/site.conf;
}
NGINX
    nginx -t -q -e "$work/nginx.log" -c "$work/nginx.conf" || fail "nginx refuses contrib/nginx.conf"
    nginx -e "$work/nginx.log" -c "$work/nginx.conf" &
    nginx=$!
    proxy=http://127.0.0.1:$port direct=http://127.0.0.1:$filters_port
    wait_for "$proxy/v1/keys"

    for accept in application/json application/octet-stream; do
        for coding in identity gzip zstd; do
            for base in "$proxy" "$direct"; do
                curl -sf -D "$work/head.${base##*:}" -o "$work/body.${base##*:}" -H "Accept: $accept" \
                    -H "Accept-Encoding: $coding" "$base/v1/filter/spent/$keyset"
            done
            cmp "$work/body.$port" "$work/body.$filters_port"
            for name in etag content-type content-encoding cache-control access-control-allow-origin; do
                [ "$(header "$name" "$port")" = "$(header "$name" "$filters_port")" ] ||
                    fail "$name is not what the service said ($accept, $coding)"
            done
        done
    done
    tag=$(header etag "$port")
    status() { curl -s -o "$work/answer" -w '%{http_code}' "$@"; }
    expect() { local wanted=$1; shift; local got; got=$(status "$@"); [ "$got" = "$wanted" ] || fail "$* answers $got, not $wanted"; }
    expect 304 -H 'Accept: application/octet-stream' -H "If-None-Match: $tag" "$proxy/v1/filter/spent/$keyset"
    expect 206 -H 'Range: bytes=0-9' "$proxy/v1/filter/issued/$keyset"
    # An old keyset id with a slash in it is an id, and no path.
    expect 400 --path-as-is "$proxy/v1/filter/spent/I2yN%2FiRYfkzT"
    grep -q 12001 "$work/answer" || fail 'an unknown keyset is not code 12001 behind the proxy'
    expect 200 "$proxy/v1/info"
    grep -q '"25"' "$work/answer" || fail 'the filters are not announced'
    for path in /metrics /ready /health /admin/refresh; do expect 404 "$proxy$path"; done
    grep -q 'the mint itself' <<<"$(curl -s "$proxy/v1/keys")" || fail 'the mint is not behind the proxy'

    kill "$nginx"
    wait "$nginx" || true
    echo "ok: nginx in front of $upstream"
done
