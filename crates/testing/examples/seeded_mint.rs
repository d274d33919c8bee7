//! Starts the seeded mint for the seed `[7; 64]`, which docs/tutorial-wallet.md restores from, and prints its URL.

use nutfilter_testing::seeded_mint::Mint;
use nutfilter_wallet::cashu::Seed;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mint = Mint::start(&Seed::from([7; 64]), 3400, |_| {})?;
    println!("{}", mint.url);
    loop {
        std::thread::park();
    }
}
