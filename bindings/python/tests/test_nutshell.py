"""A real nutshell that serves its own filters, checked with the command `nutfilter` and a wallet's own record."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("cashu")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from e2e import real_mints  # noqa: E402
from e2e.wallet_checks import WalletChecks  # noqa: E402


MAX_AGE = 2


def read(url, tag=None):
    """The answer, or None if it has not changed, and its tag."""
    request = urllib.request.Request(url, headers={"If-None-Match": tag} if tag else {})
    try:
        with real_mints.opener.open(request) as response:
            assert response.headers["Cache-Control"] == f"max-age={MAX_AGE}"
            return json.load(response), response.headers["ETag"]
    except urllib.error.HTTPError as error:
        assert (error.code, error.headers["ETag"]) == (304, tag)
        return None, tag


class NutshellWithRouter(real_mints.Nutshell):
    def command(self):
        examples = ROOT / "bindings/python/examples"
        return [self.python, "-m", "uvicorn", "--app-dir", examples, "nutshell_router:app", "--host", "127.0.0.1",
                "--port", self.url.rsplit(":", 1)[1]]

    def environment(self):
        return {**super().environment(), "FILTER_MAX_AGE": str(MAX_AGE)}


def test_router_in_a_real_nutshell_agrees_with_the_command(tmp_path):
    binary = os.environ.get("NUTFILTER_BINARY")
    if not binary:
        pytest.skip("NUTFILTER_BINARY is not set: the command nutfilter")
    mint = NutshellWithRouter(tmp_path)
    try:
        mint.begin()
        mint.spend(120, melts=2)
        mint.new_keyset()
        mint.spend(60)
        url = f"{mint.url}/v1/filter/spent/{mint.keyset}"
        first, tag = read(url)
        assert read(url, tag)[0] is None
        mint.spend(60)
        mint.stop_writing()
        # The next reading is incremental; an answer that differs from the whole table fails below.
        time.sleep(MAX_AGE + 1)
        again, new_tag = read(url, tag)
        assert again["n"] > first["n"] > 0 and new_tag != tag
        totals = WalletChecks(binary, mint, mint.url, tmp_path).all()
        assert totals["spent"] >= 160 and totals["signed"] > 200
        with pytest.raises(real_mints.Failure, match="400.*12001"):
            real_mints.fetch(f"{mint.url}/v1/filter/spent/00ffffffffffffff")
    finally:
        mint.close()
