//! A table in a directory: what it accepts at a start, what it writes, and what it leaves behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nutfilter_objects::{OpenError, Refused, Table};

const JSON: &str = "application/json";
const PATH: &str = "v1/filter/spent/00";

/// Opens a directory, in which every object is valid and dated 7.
fn open(root: &Path) -> (Table, Vec<Refused>) {
    open_with(root, |_, _| Ok((JSON, 7)))
}

fn open_with(
    root: &Path,
    check: impl Fn(&str, &[u8]) -> Result<(&'static str, u64), String>,
) -> (Table, Vec<Refused>) {
    let table = Table::in_directory(root, 0o644, &check).unwrap();
    let refused = table.refused().to_vec();
    (table, refused)
}

fn try_open(root: &Path) -> Result<Table, OpenError> {
    Table::in_directory(root, 0o644, |_, _| Ok((JSON, 7)))
}

/// A new directory, which is not created.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/b");
    (directory, root)
}

fn put(table: &Table, path: &str, date: u64, bytes: &[u8]) -> io::Result<()> {
    table.put(path, JSON, date, |out| out.write_all(bytes))
}

/// The bytes of an object.
fn bytes(table: &Table, path: &str) -> Option<Vec<u8>> {
    let (object, opened) = table.open(path, false).unwrap()?;
    let bytes = opened.read().unwrap();
    assert_eq!(nutfilter_objects::tag_of(&bytes), object.tag());
    Some(bytes)
}

/// All files below a directory, without the lock.
fn files(root: &Path) -> Vec<String> {
    let mut found = vec![];
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.path().strip_prefix(root).unwrap().to_owned();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(name.into_os_string().into_string().unwrap()),
            }
        }
    }
    found.retain(|name| name != ".nutfilter-lock");
    found.sort();
    found
}

#[cfg(unix)]
#[test]
fn objects_behind_links_are_there_again() {
    use std::os::unix::fs::symlink;
    let (directory, root) = place();
    put(&open(&root).0, PATH, 5, b"text").unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(root.join("v1"), &elsewhere).unwrap();
    symlink(&elsewhere, root.join("v1")).unwrap();
    symlink(&root, elsewhere.join("back")).unwrap();
    symlink("nowhere", elsewhere.join("dangling")).unwrap();
    let (table, refused) = open(&root);
    assert!(refused.is_empty() && bytes(&table, PATH).unwrap() == b"text");
}

#[test]
fn object_that_was_written_in_pieces_is_there_again() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    let bytes: Vec<u8> = (0..400_000_u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
    let pieces = [0, 1, 70_000, 70_000, 200_000, 1_600_000];
    let write = |out: &mut dyn io::Write| {
        pieces.windows(2).try_for_each(|piece| out.write_all(&bytes[piece[0]..piece[1]]))
    };
    table.put(PATH, JSON, 5, write).unwrap();
    // What cannot be written whole is not there.
    let failed = table.put(PATH, JSON, 6, |out| {
        out.write_all(b"half")?;
        Err(io::ErrorKind::Other.into())
    });
    assert!(failed.is_err() && self::bytes(&table, PATH).unwrap() == bytes);
    drop(table);
    let (table, refused) = open(&root);
    assert!(refused.is_empty() && self::bytes(&table, PATH).unwrap() == bytes);
}

#[test]
fn objects_are_there_again_after_a_start() {
    let (_directory, root) = place();
    let (table, refused) = open(&root);
    assert!(refused.is_empty() && table.objects().is_empty());
    for text in ["first", "second", ""] {
        put(&table, PATH, 5, text.as_bytes()).unwrap();
        put(&table, "v1/keysets", 5, b"{}").unwrap();
        assert_eq!(bytes(&table, PATH).unwrap(), text.as_bytes());
    }
    let before = table.get(PATH).unwrap();
    drop(table);
    let (table, refused) = open(&root);
    assert!(refused.is_empty());
    let object = table.get(PATH).unwrap();
    assert_eq!((object.tag(), object.date()), (before.tag(), 7));
    assert_eq!(object.media_type(), JSON);
    assert_eq!(files(&root), [PATH, "v1/filter/spent/00.gz", "v1/keysets", "v1/keysets.gz"]);
    // What the caller refuses is not there.
    drop(table);
    let check = |path: &str, bytes: &[u8]| match path {
        PATH if bytes.is_empty() => Err("empty".to_owned()),
        _ => Ok((JSON, 7)),
    };
    let (table, refused) = open_with(&root, check);
    assert_eq!((&refused[0].path, &*refused[0].reason), (&root.join(PATH), "empty"));
    assert!(table.get(PATH).is_none() && table.get("v1/keysets").is_some());
}

/// Some bytes like those of a filter, which a start must find damaged whatever happens to them.
fn with_object() -> (tempfile::TempDir, PathBuf, [Vec<u8>; 2]) {
    let (directory, root) = place();
    let mut state = 1_u32;
    let text = (0..180).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[(state >> 27) as usize]
    });
    let (table, _) = open(&root);
    put(&table, PATH, 5, &text.collect::<Vec<u8>>()).unwrap();
    let both = both(&root).map(|file| fs::read(file).unwrap());
    (directory, root, both)
}

fn both(root: &Path) -> [PathBuf; 2] {
    ["", ".gz"].map(|end| root.join(PATH.to_owned() + end))
}

/// Writes a damaged file, and opens the directory.
#[track_caller]
fn assert_refused(root: &Path, file: usize, damaged: &[u8], what: &str) {
    let file = &both(root)[file];
    let right = fs::read(file).unwrap();
    fs::write(file, damaged).unwrap();
    let (table, refused) = open(root);
    let what = format!("{}: {what}", file.display());
    assert!(table.objects().is_empty(), "{what}");
    assert_eq!(refused.len(), 1, "{what}");
    assert_eq!(refused[0].path, root.join(PATH), "{what}");
    assert!(!refused[0].reason.is_empty());
    fs::write(file, right).unwrap();
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (_directory, root, both) = with_object();
    for (which, right) in both.iter().enumerate() {
        for bit in 0..right.len() * 8 {
            // The last bit of this code only fills up its byte; the checksum and the length follow.
            if which == 1 && (right.len() - 9) * 8 + 7 <= bit && bit < (right.len() - 8) * 8 {
                continue;
            }
            let mut damaged = right.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_refused(&root, which, &damaged, &format!("bit {bit}"));
        }
    }
    assert!(open(&root).1.is_empty());
}

#[test]
fn cut_and_longer_files_are_noticed() {
    let (_directory, root, both) = with_object();
    for (which, right) in both.iter().enumerate() {
        for length in
            (0..right.len()).filter(|length| length % 100 == 0 || length + 9 > right.len())
        {
            assert_refused(&root, which, &right[..length], &format!("{length} bytes"));
        }
        for more in [&b"\0"[..], b"}", &right.repeat(2)] {
            assert_refused(&root, which, &[right, more].concat(), "longer");
        }
    }
    // One of both forms is missing.
    fs::remove_file(root.join(PATH.to_owned() + ".gz")).unwrap();
    let (table, refused) = open(&root);
    assert!(table.objects().is_empty() && refused.len() == 1);
    // It is made again.
    put(&table, PATH, 5, &both[0]).unwrap();
    drop(table);
    assert!(open(&root).1.is_empty());
}

#[test]
fn second_table_is_refused_until_the_first_is_gone() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    let error = try_open(&root).err().unwrap();
    assert!(matches!(&error, OpenError::InUse(path) if *path == root), "{error}");
    drop(table);
    open(&root);
}

#[test]
fn leftovers_of_a_killed_process_are_removed() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    put(&table, PATH, 5, b"x").unwrap();
    drop(table);
    for name in [".nutfilter-abc", "v1/filter/spent/.nutfilter-def"] {
        fs::write(root.join(name), "half").unwrap();
    }
    fs::write(root.join(".htaccess"), "mine").unwrap();
    let (table, refused) = open(&root);
    assert!(refused.is_empty() && table.objects().len() == 1);
    assert_eq!(files(&root), [".htaccess", PATH, "v1/filter/spent/00.gz"]);
}

#[test]
fn object_between_its_two_renames_is_finished() {
    let (_directory, root, [plain, gzip]) = with_object();
    let (table, _) = open(&root);
    put(&table, PATH, 5, b"old").unwrap();
    drop(table);
    let [file, zipped] = both(&root);
    let left = file.with_file_name(".nutfilter-00.a1b2c3");
    for (begins, after) in [(false, "old".as_bytes()), (true, &plain)] {
        fs::write(&left, &plain).unwrap();
        if begins {
            fs::write(&zipped, &gzip).unwrap();
        }
        let (table, refused) = open(&root);
        assert!(refused.is_empty(), "{refused:?}");
        assert_eq!(bytes(&table, PATH).as_deref(), Some(after));
        assert!(!left.exists());
    }
}

/// A server that prefers compressed files would send an older one in the place of a new plain one.
#[test]
fn compressed_form_takes_its_place_first() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    put(&table, PATH, 5, b"old").unwrap();
    let [file, zipped] = both(&root);
    fs::remove_file(&zipped).unwrap();
    fs::create_dir(&zipped).unwrap();
    assert!(put(&table, PATH, 6, b"new").is_err());
    assert_eq!(fs::read(file).unwrap(), b"old");
}

/// Each reader gets one version, whole.
#[test]
fn object_that_is_replaced_while_it_is_read_is_one_version() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    put(&table, PATH, 0, &[0; 70_000]).unwrap();
    std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut date = 0;
                while date < 60 {
                    let (object, opened) = table.open(PATH, false).unwrap().unwrap();
                    let bytes = opened.read().unwrap();
                    assert!(date <= object.date() && bytes.len() == 70_000);
                    date = object.date();
                    assert!(bytes.iter().all(|&byte| u64::from(byte) == date));
                }
            })
        });
        for date in 1..=60 {
            put(&table, PATH, date, &[date as u8; 70_000]).unwrap();
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn removed_directory_is_made_again() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    put(&table, PATH, 5, b"x").unwrap();
    assert!(table.is_intact(PATH));
    fs::remove_dir_all(&root).unwrap();
    assert!(!table.is_intact(PATH));
    assert!(table.open(PATH, false).is_err());
    table.restore().unwrap();
    // It has the lock again.
    assert!(matches!(try_open(&root), Err(OpenError::InUse(_))));
    put(&table, PATH, 6, b"y").unwrap();
    assert!(table.is_intact(PATH));
    assert_eq!(bytes(&table, PATH).unwrap(), b"y");
    // A file of somebody else is not served for it.
    let file = root.join(PATH);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "z").unwrap();
    assert!(!table.is_intact(PATH));
    assert!(table.open(PATH, false).is_err());
}

#[test]
fn object_that_was_opened_stays_as_it_was() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    put(&table, PATH, 5, b"old").unwrap();
    let (old, opened) = table.open(PATH, false).unwrap().unwrap();
    put(&table, PATH, 6, b"new").unwrap();
    table.remove(PATH);
    assert!(table.get(PATH).is_none());
    assert_eq!(files(&root), [""; 0]);
    assert_eq!((opened.read().unwrap(), old.date()), (b"old".to_vec(), 5));
}

#[test]
fn path_that_no_file_can_have_is_refused() {
    let (_directory, root) = place();
    let (table, _) = open(&root);
    let odd = "/ /a a/ a//b . .. ../a a/../b a/.b .nutfilter-lock a.gz a.gz/b";
    for path in odd.split(' ').chain(["", "a\0b"]) {
        assert!(put(&table, path, 5, b"x").is_err(), "{path:?}");
        assert!(table.get(path).is_none());
        table.remove(path);
    }
    // A path may not be both a file and a directory.
    put(&table, "a", 5, b"x").unwrap();
    assert!(put(&table, "a/b", 5, b"x").is_err());
    assert_eq!(files(&root), ["a", "a.gz"]);
}

#[test]
fn files_of_others_are_refused_and_stay() {
    let (_directory, root) = place();
    let mine = root.join("mine/notes.txt");
    fs::create_dir_all(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "mine").unwrap();
    let (table, refused) = open_with(&root, |_, _| Err("not an object".to_owned()));
    assert!(table.objects().is_empty() && refused[0].path == mine);
    put(&table, PATH, 5, b"x").unwrap();
    table.retain(|_| true);
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
}

#[test]
fn files_of_former_objects_are_removed_after_an_hour() {
    let (_directory, root) = place();
    for hours in [0, 2] {
        let (table, _) = open(&root);
        for path in ["old", "kept"] {
            put(&table, path, 5, b"{}").unwrap();
            let file = fs::File::options().write(true).open(root.join(path));
            let written = SystemTime::now() - Duration::from_secs(hours * 3_600);
            file.unwrap().set_modified(written).unwrap();
        }
        table.retain(|path| path == "kept");
        assert!(table.get("old").is_none());
        let stays = ["kept", "old", "old.gz"].map(|name| root.join(name).exists());
        assert_eq!(stays, [true, hours == 0, hours == 0], "{hours} h");
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    const CHILD: &str = "NUTFILTER_TEST_DIRECTORY";

    /// Runs a test of this program in a shell, after some commands, with a directory in its environment.
    fn run(test: &str, commands: &str, root: &Path) {
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("{commands} && exec \"$0\" \"$@\""))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--test-threads=1"])
            .env(CHILD, root)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    fn child() -> Option<PathBuf> {
        std::env::var_os(CHILD).map(PathBuf::from)
    }

    #[test]
    fn modes_do_not_depend_on_the_mask() {
        let modes = [(0o644, 0o755), (0o640, 0o750), (0o600, 0o700), (0o444, 0o755)];
        if let Some(root) = child() {
            for (mode, _) in modes {
                let check = |_: &str, _: &[u8]| Ok((JSON, 7));
                let table =
                    Table::in_directory(&root.join(format!("{mode:o}")), mode, check).unwrap();
                put(&table, "a/b", 5, b"x").unwrap();
            }
            return;
        }
        let (_directory, root) = place();
        run("unix::modes_do_not_depend_on_the_mask", "umask 077", &root);
        for (mode, folder) in modes {
            for (name, expected) in [("a/b", mode), ("a/b.gz", mode), ("a", folder), ("", folder)] {
                let path = root.join(format!("{mode:o}")).join(name);
                let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
                assert_eq!(found, expected, "{}: {found:o}", path.display());
            }
        }
    }

    #[test]
    fn three_thousand_objects_need_few_descriptors() {
        let Some(root) = child() else {
            let (_directory, root) = place();
            run("unix::three_thousand_objects_need_few_descriptors", "ulimit -n 64", &root);
            return;
        };
        let (table, _) = open(&root);
        let paths: Vec<String> = (0..3000).map(|number| format!("v1/{number}")).collect();
        for path in &paths {
            put(&table, path, 5, path.as_bytes()).unwrap();
        }
        drop(table);
        let (table, refused) = open(&root);
        assert!(refused.is_empty() && table.objects().len() == 3000);
        for path in &paths {
            assert_eq!(bytes(&table, path).unwrap(), path.as_bytes());
        }
    }

    #[test]
    fn full_disk_leaves_the_old_object() {
        let (_directory, root) = place();
        fs::create_dir_all(&root).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&root)
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: this user cannot mount a file system");
            return;
        }
        let (table, _) = open(&root);
        put(&table, PATH, 5, b"old").unwrap();
        let failed = put(&table, PATH, 6, &[b'x'; 1 << 17]).is_err();
        let kept = (bytes(&table, PATH), table.get(PATH).unwrap().date());
        let left = files(&root);
        // There is room again, since the failed one left nothing.
        let again = put(&table, PATH, 6, b"new");
        drop(table);
        let unmounted = Command::new("umount").arg(&root).status().unwrap();
        assert!(unmounted.success() && failed);
        assert_eq!(kept, (Some(b"old".to_vec()), 5));
        assert_eq!(left, [PATH, "v1/filter/spent/00.gz"]);
        again.unwrap();
    }
}
