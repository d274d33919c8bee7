//! Sequences against a slow model, and with faults at every change of the disk.

mod damage;
mod faults;
mod model;
mod observer;
mod rules;
mod ten_years;
