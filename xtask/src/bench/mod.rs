//! x
use crate::Result;
/// x
pub fn run(_: usize, _: bool, _: bool) -> Result<()> {
    Ok(())
}
