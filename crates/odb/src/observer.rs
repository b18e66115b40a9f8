//! Progress and cancellation for long work, shared by the crates above this one.

/// Told about long work while it runs, and asked whether to go on.
///
/// Libraries never print; whoever wants a progress meter, or a way to stop, hands in an observer. All methods do
/// nothing by default, so that an implementation names only what it cares about. Calls may come from any thread that
/// does the work, and must be cheap: they are made in loops (though never per byte).
///
/// ```
/// use packstone_odb::Observer;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Default)]
/// struct Count(AtomicU64);
/// impl Observer for Count {
///     fn inc(&self, n: u64) {
///         self.0.fetch_add(n, Ordering::Relaxed);
///     }
/// }
/// let count = Count::default();
/// count.phase("Counting objects", None);
/// count.inc(3);
/// assert_eq!(count.0.into_inner(), 3);
/// ```
pub trait Observer: Send + Sync {
    /// A new phase begins; `total` is the number of steps it will take, where that is known.
    fn phase(&self, name: &str, total: Option<u64>) {
        let _ = (name, total);
    }

    /// `n` more steps of the current phase are done.
    fn inc(&self, n: u64) {
        let _ = n;
    }

    /// Whether the work should stop at its next opportunity. Once `true`, it should stay `true`.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The observer that neither reports nor cancels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Observer for Quiet {}

impl<T: Observer + ?Sized> Observer for &T {
    fn phase(&self, name: &str, total: Option<u64>) {
        (**self).phase(name, total);
    }
    fn inc(&self, n: u64) {
        (**self).inc(n);
    }
    fn cancelled(&self) -> bool {
        (**self).cancelled()
    }
}
