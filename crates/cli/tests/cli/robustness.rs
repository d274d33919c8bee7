//! Large files within limits on memory.

use nutfilter::Params;
use nutfilter_cashu::FilterResponse;

use crate::nutfilter::{Place, Ran, lines};

/// The test limits address space: twice the file size plus the needs of the program and its libraries.
#[cfg(target_os = "linux")]
#[test]
fn large_file_is_read_in_twice_its_size() {
    const PROGRAM: usize = 64 << 20;

    let place = Place::new();
    place.write("mine.hex", lines(0..10));
    let none = nutfilter::SortedHashes::from_items([[0_u8; 33]; 0]);
    let mut response = FilterResponse::new(&none.encode(Params::CASHU).expect("a filter"), 0);
    response.content = vec![0; 20 << 20];
    let fitting = response.content.len() as u32 * 8 / 20;
    for (n, wanted) in [
        (fitting, Ok("maybe\t0\nabsent\t10\n")),
        (fitting - 2, Err("declares 8388606 items")),
    ] {
        response.n = n;
        let json = response.to_json();
        let limited = |kib: usize| {
            let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
            let command = place.command("check filter mine.hex --count");
            let mut shell = std::process::Command::new("/bin/sh");
            shell
                .args(["-c", &script])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(place.path("."))
                .env_clear()
                // One heap and few threads, because each reserves more than it uses.
                .envs([("MALLOC_ARENA_MAX", "1"), ("RAYON_NUM_THREADS", "1")]);
            Ran::from(shell.output().expect("a shell"))
        };
        place.write("filter", &json);
        let ran = limited((2 * json.len() + PROGRAM) >> 10);
        match wanted {
            Ok(counts) => assert_eq!(String::from_utf8_lossy(&ran.stdout), counts, "{ran:?}"),
            Err(error) => drop(ran.error_with(error)),
        }
        // Checks that a smaller limit has an effect.
        let starved = limited(json.len() >> 10);
        assert!(!matches!(starved.code, Some(0 | 1)), "{starved:?}");
    }
}
