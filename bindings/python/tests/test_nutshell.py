"""A real nutshell that serves its own filters, checked with the command `nutfilter` and a wallet's own record."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("cashu")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from e2e import real_mints  # noqa: E402
from e2e.wallet_checks import WalletChecks  # noqa: E402


class NutshellWithRouter(real_mints.Nutshell):
    def command(self):
        examples = ROOT / "bindings/python/examples"
        return [self.python, "-m", "uvicorn", "--app-dir", examples, "nutshell_router:app", "--host", "127.0.0.1",
                "--port", self.url.rsplit(":", 1)[1]]


def test_router_in_a_real_nutshell_agrees_with_the_command(tmp_path):
    binary = os.environ.get("NUTFILTER_BINARY")
    if not binary:
        pytest.skip("NUTFILTER_BINARY is not set: the command nutfilter")
    mint = NutshellWithRouter(tmp_path)
    try:
        mint.begin()
        mint.spend(120, melts=2)
        mint.new_keyset()
        mint.spend(120)
        mint.stop_writing()
        totals = WalletChecks(binary, mint, mint.url, tmp_path).all()
        assert totals["spent"] >= 160 and totals["signed"] > 200
        with pytest.raises(real_mints.Failure, match="400.*12001"):
            real_mints.fetch(f"{mint.url}/v1/filter/spent/00ffffffffffffff")
    finally:
        mint.close()
