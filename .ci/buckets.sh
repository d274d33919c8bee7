#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
rm -rf "$work/bucket" && mkdir -p "$work/bucket" && cd "$work/bucket"
[ -x ../../moto/bin/python ] || python3 -m venv ../../moto
../../moto/bin/pip install -q 'moto[server]==5.2.5'
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
../../moto/bin/moto_server -H 127.0.0.1 -p "$port" > moto.log 2>&1 &
moto=$!
trap 'kill $moto' EXIT
# Of the tests; the service refuses variables that it does not know.
unset NUTFILTER_VECTORS
until (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.2; done
export RCLONE_CONFIG=/dev/null RCLONE_CONFIG_BUCKET_TYPE=s3 RCLONE_CONFIG_BUCKET_PROVIDER=Other \
    RCLONE_CONFIG_BUCKET_ENDPOINT="http://127.0.0.1:$port" RCLONE_CONFIG_BUCKET_ACCESS_KEY_ID=test RCLONE_CONFIG_BUCKET_SECRET_ACCESS_KEY=test
rclone mkdir bucket:mint
"$nutfilter" --quiet demo --once --items 10000 --keep sample > demo.log
keyset=$(sqlite3 sample/cdk-mintd.sqlite 'SELECT keyset_id FROM proof LIMIT 1')
head -20 sample/wallet.hex > spent.hex
for _ in 1 2; do
    "$nutfilter" --quiet serve --mint-database sample/cdk-mintd.sqlite --output filters --once
    rclone sync --checksum --exclude '.*' --exclude '*.gz' --header-upload 'Content-Type: application/json' \
        --header-upload 'Cache-Control: public, max-age=60' filters bucket:mint
done
rclone check --download --exclude '.*' --exclude '*.gz' filters bucket:mint
rclone lsjson --metadata bucket:mint/v1/filter/spent | grep -q 'public, max-age=60'
# In the place of the public address of a bucket.
rclone serve http bucket:mint --addr "127.0.0.1:$((port + 1))" > serve.log 2>&1 &
serve=$!
trap 'kill $serve $moto' EXIT
until (: < "/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null; do sleep 0.2; done
"$nutfilter" --quiet check --mint "http://127.0.0.1:$((port + 1))" --keyset "$keyset" --count spent.hex > counted
grep -P '^maybe\t20$' counted
