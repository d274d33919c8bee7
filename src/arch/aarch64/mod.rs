//! Kernels for Arm 64.
//!
//! NEON is part of every usual target, so it is not detected at run time. The others have the portable code only:
//! [`detect`] makes no token for them, and `Neon` names a type that serves to compile.

#[cfg(all(target_feature = "neon", target_endian = "little"))]
mod lanes;

#[cfg(not(all(target_feature = "neon", target_endian = "little")))]
pub(crate) use super::lanes::Scalar as Neon;
#[cfg(all(target_feature = "neon", target_endian = "little"))]
pub(crate) use lanes::Neon;

/// The token, if the target has NEON.
pub(super) fn detect() -> Option<Neon> {
    #[cfg(all(target_feature = "neon", target_endian = "little"))]
    return Some(Neon::new());
    #[cfg(not(all(target_feature = "neon", target_endian = "little")))]
    None
}
