use leakcheck::leak_budget;

#[leak_budget(bytes = 0)]
struct Structure;

#[leak_budget(bytes = 0)]
mod module {}

#[leak_budget(bytes = 0)]
/// A constant is no function, attributes or not.
pub const CONSTANT: u32 = 0;

struct Type;

impl Type {
    #[leak_budget(bytes = 0)]
    fn method(&self) {}
}

#[leak_budget(bytes = 0)]
#[leak_budget(blocks = 0)]
fn twice() {}

#[leak_budget(bytes = 0)]
#[leakcheck::leak_budget(blocks = 0)]
fn twice_by_path() {}

fn main() {
    // The functions and types are still there: a wrong budget brings no errors about missing items.
    let _ = (Structure, CONSTANT, twice, twice_by_path);
    Type.method();
}
