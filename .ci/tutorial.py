#!/usr/bin/env python3
"""The code of the wallet tutorial restores from the seeded mint, and says what the tutorial says."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
folder = ROOT / "target/work/tutorial"
text = (ROOT / "docs/tutorial-wallet.md").read_text()
code = re.findall("```rust\n(.*?)```", text, re.S)
dependencies = re.search("```toml\n(.*?)```", text, re.S)[1].replace("../nutfilter", str(ROOT))
(folder / "src").mkdir(parents=True, exist_ok=True)
(folder / "src/main.rs").write_text("#![allow(dead_code)]\n" + "\n".join(code))
(folder / "Cargo.toml").write_text(f'[package]\nname = "tutorial"\nedition = "2024"\n{dependencies}\n[workspace]\n')
(folder / "Cargo.lock").write_bytes((ROOT / "Cargo.lock").read_bytes())
options = ["--quiet", "--manifest-path", folder / "Cargo.toml", "--target-dir", "target"]
subprocess.run(["cargo", "build", *options], check=True, cwd=ROOT)
mint = subprocess.Popen(["cargo", "run", "--quiet", "-p", "nutfilter-testing", "--features", "mint", "--example", "seeded_mint"],
                        stdout=subprocess.PIPE, cwd=ROOT)
try:
    mint.stdout.readline()
    said = subprocess.run(["cargo", "run", *options], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
finally:
    mint.kill()
print(said, end="")
assert said.strip() in text, "the tutorial says something else"
