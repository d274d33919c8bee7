//! The command line of `nutfilter-dashboard`.

use std::path::Path;

fn main() {
    let records = nutfilter_dashboard::records::read_records(Path::new("benches/record")).unwrap();
    let campaigns = nutfilter_dashboard::fuzzing::read_campaigns(Path::new("fuzz/record")).unwrap();
    let page = nutfilter_dashboard::page::render(&records, &campaigns);
    nutfilter_dashboard::files::write_whole(Path::new("docs/dashboard/index.html"), &page).unwrap();
}
