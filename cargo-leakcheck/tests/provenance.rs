//! The committed eBPF object is what `PROVENANCE.toml` says, and so are its sources.

use xtask::provenance::{self, Digests};

#[test]
fn the_object_was_built_from_these_sources() {
    let recorded = provenance::read().unwrap().sha256;
    let now = Digests::now().unwrap();
    assert_eq!(
        recorded.sources, now.sources,
        "the sources of the eBPF object have changed: rebuild it with `cargo xtask bpf` (CONTRIBUTING.md)"
    );
    assert_eq!(
        recorded.x86_64, now.x86_64,
        "the eBPF object is not the one that was built: rebuild it with `cargo xtask bpf` (CONTRIBUTING.md)"
    );
}
