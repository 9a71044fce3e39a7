use super::Measure;

/// What was alive of a test's blocks when it had allocated the most bytes, by call stacks. `S` is a call stack, as in
/// [`Finding`](super::Finding).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtPeak<S> {
    /// Most bytes come first.
    pub stacks: Vec<Allocated<S>>,
    /// What was alive of call stacks that are not among them, which had less.
    pub rest: Measure,
    /// Why it is not known; then there is nothing else.
    pub unknown: Option<String>,
}

/// What one call stack has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocated<S> {
    /// How much.
    pub measure: Measure,
    /// Where; none where the stack was lost.
    pub stack: Option<S>,
}

impl<S> AtPeak<S> {
    /// It is not known.
    pub fn unknown(reason: String) -> Self {
        Self { stacks: Vec::new(), rest: Measure::default(), unknown: Some(reason) }
    }

    /// All of it.
    pub fn total(&self) -> Measure {
        self.stacks.iter().map(|it| it.measure).sum::<Measure>() + self.rest
    }
}
