//! [`Instructions`]: counts under callgrind, which do not depend on what else the machine does.

use serde::{Deserialize, Serialize};

use crate::baseline::Baseline;

/// The counts of one run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Instructions {
    /// The compiler that made what was counted.
    pub rustc: String,
    /// The valgrind that counted, in its own words; `unknown` where nobody wrote it down.
    pub valgrind: String,
    /// By name.
    pub counts: Vec<Count>,
}

/// The instructions of one call.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Count {
    /// `stage/task/size/level`.
    pub name: String,
    /// Of a call.
    pub instructions: u64,
}

impl Instructions {
    /// What was counted, by the valgrind with this name.
    #[must_use]
    pub fn new(counted: &Baseline, valgrind: &str) -> Self {
        let counts = counted.instructions.iter();
        Self {
            rustc: counted.rustc.clone(),
            valgrind: valgrind.to_owned(),
            counts: counts
                .map(|(name, &instructions)| Count {
                    name: name.clone(),
                    instructions,
                })
                .collect(),
        }
    }
}
