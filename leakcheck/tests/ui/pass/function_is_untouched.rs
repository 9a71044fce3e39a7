// The attribute changes nothing about the function: attributes, generics, qualifiers and body stay.
#![deny(warnings)]

use leakcheck::leak_budget;

#[leak_budget(bytes = 0)]
#[must_use]
#[inline(never)]
pub const unsafe extern "C" fn qualified<const N: usize>() -> usize {
    N
}

#[leak_budget(blocks = 1, ignore = "async")]
async fn waits<T: Clone>(value: &T) -> T
where
    T: Default,
{
    value.clone()
}

mod outer {
    pub fn function() -> u32 {
        mod inner {
            #[leakcheck::leak_budget(bytes = 0)]
            pub(super) fn nested() -> u32 {
                7
            }
        }
        inner::nested()
    }
}

fn main() {
    assert_eq!(unsafe { qualified::<3>() }, 3);
    assert_eq!(outer::function(), 7);
    drop(waits(&0));
}
