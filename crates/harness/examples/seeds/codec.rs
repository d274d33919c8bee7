//! Seeds of decode, encode, matching, seek_index and resident: bytes in the form that their cases read.

use std::path::{Path, PathBuf};
use std::{fs, io};

use nutfilter::{Filter, Params};
use nutfilter_harness::recipe;
use nutfilter_reference::Noise;

/// The levels that a case names by number, and 3 for all.
const LEVELS: [u8; 4] = [0, 1, 2, 3];

/// What fills an input up to where a recipe is possible: more than 64 bytes in all.
const FILL: usize = 56;

pub(crate) fn write(root: &Path) -> io::Result<()> {
    decode(&Folder::new(root, "decode")?)?;
    encode(&Folder::new(root, "encode")?)?;
    matching(&Folder::new(root, "matching")?)?;
    seek_index(&Folder::new(root, "seek_index")?)?;
    resident(&Folder::new(root, "resident")?)
}

struct Folder(PathBuf);

impl Folder {
    fn new(root: &Path, target: &str) -> io::Result<Self> {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    fn seed(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        fs::write(self.0.join(name), parts.concat())
    }
}

/// The recipe of a set or a filter: see `items` of the module `recipe` for the classes of sizes.
fn recipe(class: u8, shape: u8, seed: u32) -> [u8; 8] {
    let mut recipe = [0xff, 0, class, shape, 0, 0, 0, 0];
    recipe[4..].copy_from_slice(&seed.to_le_bytes());
    recipe
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let bytes = Noise(seed).flat_map(u64::to_le_bytes);
    bytes.take(len).collect()
}

fn decode(folder: &Folder) -> io::Result<()> {
    let case = |name: &str, how: u8, n: u64, p: u8, m: u64, bytes: &[u8]| {
        folder.seed(
            name,
            &[&[how], &n.to_le_bytes(), &[p], &m.to_le_bytes(), bytes],
        )
    };
    for (number, (p, m)) in [
        (0, 1),
        (0, 3),
        (1, 3),
        (6, 100),
        (19, 784_931),
        (32, u32::MAX.into()),
    ]
    .into_iter()
    .enumerate()
    {
        let params = Params::new(p, m).expect("within the limits");
        let n = (300 / (p + 3)).min(40);
        let mut values: Vec<u64> = Noise(u64::from(p))
            .map(|hash| nutfilter::map_to_range(hash, params.range(n)))
            .take(n as usize)
            .collect();
        values.sort_unstable();
        let filter = Filter::from_values(&values, params).expect("a small set");
        let (n, p) = (u64::from(n), p as u8);
        // Every way, each at every level with two P.
        for way in 0..8 {
            let level = (way + number as u8) % 3;
            let how = level << 1 | way << 3 | way << 6;
            case(&format!("p{p}-m{m}-way{way}"), how, n, p, m, filter.bytes())?;
        }
        let all = 3 << 1 | 2 << 3;
        let bytes = filter.bytes();
        case(
            &format!("p{p}-m{m}-cut"),
            all,
            n,
            p,
            m,
            &bytes[..bytes.len() - 1],
        )?;
        case(
            &format!("p{p}-m{m}-trailing"),
            all,
            n,
            p,
            m,
            &[bytes, &[0]].concat(),
        )?;
        let mut padded = bytes.to_vec();
        *padded.last_mut().expect("items") |= 1;
        case(&format!("p{p}-m{m}-last-bit"), all, n, p, m, &padded)?;
        case(&format!("p{p}-m{m}-one-more"), all, n + 1, p, m, bytes)?;
        case(&format!("p{p}-m{m}-one-less"), all, n - 1, p, m, bytes)?;
        case(&format!("p{p}-m{m}-ones"), all, n, p, m, &[0xff; 40])?;
        case(&format!("p{p}-m{m}-zeros"), all, n, p, m, &[0; 40])?;
    }
    case("empty", 6, 0, 19, 784_931, &[])?;
    case("empty-with-bytes", 6, 0, 19, 784_931, &[0])?;
    case("nothing-for-one", 6, 1, 19, 784_931, &[])?;
    case("p33", 6, 1, 33, 784_931, &[0; 3])?;
    case("m0", 6, 1, 19, 0, &[0; 3])?;
    case("m-of-33-bits", 6, 1, 19, 1 << 32, &[0; 3])?;
    case("n-of-33-bits", 6, 1 << 32, 19, 784_931, &[0; 3])?;
    case(
        "largest",
        6,
        u32::MAX.into(),
        32,
        u32::MAX.into(),
        &[0xff; 46],
    )?;
    decode_recipes(|name, how, size, p, slack, edits| {
        let size = u64::from_le_bytes(size);
        case(name, how | 1, size, p, slack, edits)
    })
}

/// Filters that reach the lanes of each level, and damage in them.
fn decode_recipes(
    case: impl Fn(&str, u8, [u8; 8], u8, u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // In full, with M as large as the set asks for.
    let fill = [0; FILL];
    for p in [0, 1, 10, 19, 27, 32] {
        for way in [0, 1, 2, 5] {
            let how = 3 << 1 | way << 3;
            case(
                &format!("lanes-p{p}-way{way}"),
                how,
                recipe(6, 0, 7),
                p,
                0x120,
                &fill,
            )?;
        }
    }
    // Four lanes that keep values are for many items only.
    case(
        "lanes-portable-values",
        2 << 3,
        recipe(7, 2, 7),
        0,
        0x120,
        &fill,
    )?;
    case(
        "lanes-portable-fold",
        5 << 3,
        recipe(7, 0, 7),
        0,
        0x120,
        &fill,
    )?;
    for shape in 1..8 {
        for (p, way) in [(19, 3), (2, 2), (10, 1), (6, 5)] {
            let how = 3 << 1 | way << 3;
            case(
                &format!("shape{shape}-p{p}"),
                how,
                recipe(6, shape, 7),
                p,
                0x120,
                &fill,
            )?;
        }
    }
    // The largest value is the largest that is allowed, or one more, from an item of some lane on.
    for (name, end) in [("largest", recipe::AT_LARGEST), ("range", recipe::AT_RANGE)] {
        for place in [0x0800, 0x5500, 0xf000, 0xffff_u64] {
            for (p, way) in [(19, 2), (6, 3)] {
                let how = 3 << 1 | way << 3;
                let slack = end | place << 16;
                let name = format!("end-at-{name}-from{place}-p{p}");
                case(&name, how, recipe(6, 0, 7), p, slack, &fill)?;
            }
        }
    }
    // Each edit, a third of the way and near the end.
    for what in 1..12 {
        for place in [0x55, 0xfe] {
            for p in [3, 19] {
                let mut edits = fill;
                edits[..4].copy_from_slice(&[what, place, 0x55, 0x81]);
                let how = 3 << 1 | (what % 6) << 3;
                case(
                    &format!("edit{what}-at{place}-p{p}"),
                    how,
                    recipe(6, 0, 7),
                    p,
                    0x1ff,
                    &edits,
                )?;
            }
        }
    }
    Ok(())
}

fn encode(folder: &Folder) -> io::Result<()> {
    // Way, name.
    for (way, name) in [(0, "whole"), (1, "merged"), (2, "segments"), (3, "pieces")] {
        for level in LEVELS {
            for p in [0_u8, 3, 10, 19, 27, 32] {
                let m = (3_u64 << p >> 1).clamp(1, u32::MAX.into()) as u32;
                let then = level.wrapping_add(p);
                let case = |name: &str, how: u8, rest: &[u8]| {
                    let head = [how | level << 4 | way << 6, p];
                    let tail = [0x55, 3, 20, 2, then];
                    folder.seed(name, &[&head, &m.to_le_bytes(), &tail, rest])
                };
                case(&format!("{name}-{level}-p{p}"), 1, &noise(p.into(), 53))?;
                let (class, shape) = [(4, 0), (4, 1), (6, 5), (4, 4)][usize::from(way)];
                let rest = [&recipe(class, shape, 7)[..], &noise(1, 48)].concat();
                case(&format!("{name}-{level}-p{p}-large"), 8 | 3, &rest)?;
            }
        }
    }
    // A range of more than 40 bits has a kernel of its own.
    for level in LEVELS {
        let head = [8 | 4 | 3 | level << 4, 24];
        let tail = [0x55, 3, 20, 2, 3];
        let m = u32::MAX.to_le_bytes();
        let rest = [&recipe(1, 0, 7)[..], &noise(1, 48)].concat();
        folder.seed(&format!("far-{level}"), &[&head, &m, &tail, &rest])?;
    }
    Ok(())
}

fn matching(folder: &Folder) -> io::Result<()> {
    for (kind, name) in [
        (0, "filter"),
        (1, "admitted"),
        (2, "borrowed"),
        (3, "owned"),
    ] {
        for profile in 0..3 {
            for (number, (p, m)) in [(0_u8, 3_u32), (6, 100), (200, 0), (30, 3 << 28)]
                .into_iter()
                .enumerate()
            {
                let case = |name: &str, how: u8, width: u8, ask: u8, rest: &[u8]| {
                    let head = [profile | how | kind << 6, p];
                    let tail = [16, width, 200, ask];
                    folder.seed(name, &[&head, &m.to_le_bytes(), &tail, rest])
                };
                let name = format!("{name}-{profile}-p{p}");
                for ask in 0..7 {
                    let level = (profile + ask) % 3;
                    let name = format!("{name}-ask{ask}");
                    case(&name, level << 4, 2, ask, &noise(p.into(), 53))?;
                }
                case(&format!("{name}-lengths"), 3 << 4 | 4, 0, 7, &noise(2, 200))?;
                let rest = [&recipe(6, 0, 7)[..], &noise(1, 66)].concat();
                // One level each, as these take their time, and each profile at all levels.
                let level = (profile + kind + number as u8) % 3;
                case(&format!("{name}-large"), 8 | level << 4, 33, 7, &rest)?;
            }
        }
    }
    Ok(())
}

fn seek_index(folder: &Folder) -> io::Result<()> {
    for (kind, name) in [(0, "damage"), (1, "forged"), (2, "junk"), (3, "grafted")] {
        for (p, m) in [(0_u8, 3_u16), (6, 100), (200, 0), (30, 60_000)] {
            for changes in [0, 1] {
                let case = |name: &str, how: u8, step: u8, way: u8, rest: &[u8]| {
                    let head = [how | kind << 6, p];
                    let tail = [step, 0, changes | way << 3];
                    let change = [0x80, 0x10, 1];
                    let change = &change[..3 * usize::from(changes)];
                    folder.seed(name, &[&head, &m.to_le_bytes(), &tail, change, rest])
                };
                let name = format!("{name}-p{p}-{changes}");
                // Crowded ones have lists; as many as fill all lanes are uniform.
                let shape = if changes == 0 { 0 } else { 5 };
                for way in 0..5 {
                    let level = (way + kind) % 3;
                    let name = format!("{name}-way{way}");
                    case(&name, 1 | 4 | level << 4, 3, way, &noise(p.into(), 54))?;
                }
                // Hashes that all fall in one part, which has a list.
                case(&format!("{name}-crowded"), 4 | 3 << 4, 9, 7, &[7; 150])?;
                let rest = [
                    &recipe(if changes == 0 { 6 } else { 3 }, shape, 7)[..],
                    &noise(1, 72),
                ]
                .concat();
                let how = 8 | 4 | 3 | 3 << 4;
                case(&format!("{name}-large"), how, 16, 7, &rest)?;
            }
        }
    }
    Ok(())
}

fn resident(folder: &Folder) -> io::Result<()> {
    for m in [0_u16, 6, 49_058, 65_535] {
        for forged in [0, 1] {
            let seed = |name: &str, how: u8, changes: u8, rest: &[u8]| {
                let head = [how | forged << 6];
                let tail = [0, changes, 0x80, 0x10, 1];
                let tail = &tail[..2 + 3 * usize::from(changes)];
                let name = format!("{name}-m{m}-{forged}-{changes}");
                folder.seed(&name, &[&head, &m.to_le_bytes(), tail, rest])
            };
            for changes in [0, 1] {
                for level in LEVELS {
                    let how = 1 | level << 4;
                    seed(
                        &format!("noise-{level}"),
                        how,
                        changes,
                        &noise(m.into(), 54),
                    )?;
                }
                // Uniform hashes; all in one line; half of them in one line, which are too many.
                for (shape, class) in [(0, 5), (1, 2), (5, 4)] {
                    let rest = [&recipe(class, shape, 7)[..], &noise(1, 72)].concat();
                    seed(&format!("shape-{shape}"), 8 | 3 | 3 << 4, changes, &rest)?;
                }
            }
        }
    }
    Ok(())
}
