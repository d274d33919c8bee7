//! What the system says of the file system below a database.

use std::path::Path;

/// The name of a file system on which locks and logs of other machines may be invisible.
pub(super) fn remote(path: &Path) -> Option<&'static str> {
    match file_system(path)? {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("CIFS"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        _ => None,
    }
}

/// Whether each change of a file gets a date, at once and for every reader: on ext4, XFS, Btrfs, tmpfs, ZFS and F2FS. Others
/// cache the dates of another machine or layer.
pub(super) fn dates_changes(path: &Path) -> bool {
    const LOCAL: [u32; 6] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x2fc1_2fc1, 0xf2f5_2010];
    file_system(path).is_some_and(|kind| LOCAL.contains(&kind))
}

/// The type that the system gives to a file system.
fn file_system(path: &Path) -> Option<u32> {
    #[cfg(target_os = "linux")]
    return rustix::fs::statfs(path).ok()?.f_type.try_into().ok();
    #[cfg(not(target_os = "linux"))]
    None
}
