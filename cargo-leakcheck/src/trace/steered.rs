//! What a run checks with eBPF, and why not the rest.

use super::SHARED_FILES;
use super::kernel::Kernel;
use super::prepare::Prepared;
use crate::error::{Error, Result};
use crate::model::{Availability, Steered};
use crate::options::TraceOptions;

/// What is checked with eBPF.
pub fn of(
    kernel: Option<&Kernel>,
    prepared: &Prepared,
    options: &TraceOptions,
    ipc: Availability,
) -> Steered {
    let unless = |available, unseen: Option<String>| match (available, unseen) {
        (Availability::Checked, Some(reason)) => Availability::Unavailable { reason },
        (available, _) => available,
    };
    let started = kernel.and_then(Kernel::started);
    let unseen =
        |why: &String| format!("it is not known what a test's children make in {SHARED_FILES}: {why}");
    let descendants_unseen = || started?.as_ref().err().map(unseen);
    let ipc_unseen = prepared.ipc_unseen().or_else(|| kernel?.creations_unseen()).map(str::to_owned);
    let ipc_unseen = ipc_unseen.or_else(descendants_unseen);
    Steered {
        without_ebpf: None,
        descriptors: available(kernel.and_then(Kernel::files)),
        objects: available(kernel.and_then(Kernel::objects)),
        ipc,
        ipc_calls: unless(available(kernel.and_then(Kernel::ipc_calls)), ipc_unseen),
        children: available(started.filter(|_| options.children)),
        mappings: unless(
            available(kernel.and_then(Kernel::map_calls)),
            prepared.mappings_unseen().map(str::to_owned),
        ),
    }
}

/// Whether a part of the kernel side can be used.
fn available<T>(part: Option<&std::result::Result<T, String>>) -> Availability {
    match part {
        None => Availability::Off,
        Some(Ok(_)) => Availability::Checked,
        Some(Err(reason)) => Availability::Unavailable { reason: reason.clone() },
    }
}

/// Fails where a part of eBPF that is asked for is missing.
///
/// # Errors
/// Which one.
pub fn whole(steered: &Steered) -> Result<()> {
    let parts = [
        ("look at descriptors", &steered.descriptors),
        ("look at what they hold in the kernel", &steered.objects),
        ("note calls that make IPC objects", &steered.ipc_calls),
        ("note what processes start", &steered.children),
        ("note calls that make mappings", &steered.mappings),
    ];
    parts.into_iter().try_for_each(|(what, availability)| match availability {
        Availability::Unavailable { reason } => {
            Err(Error::Kernel { what: what.into(), reason: format!("{reason} (--require-ebpf asks for it)") })
        }
        Availability::Checked | Availability::Off => Ok(()),
    })
}
