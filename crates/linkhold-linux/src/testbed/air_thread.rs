//! The thread of a run's air, which ends with the run, however that ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `air` on a thread of its own, and `beside` on this one; answers what came of both. If `beside` fails
/// or panics, `air` is told to stop by the flag that it is given; without that it ends by itself. When this
/// returns, or a panic goes on, the thread has ended: the air of a run that panicked would otherwise go on
/// to the scenario's end, and take the processor from the cells that come next.
///
/// # Errors
/// The system's, if there is no thread to be had.
pub(super) fn beside_the_air<A: Send, R, E>(
    air: impl FnOnce(&AtomicBool) -> A + Send,
    beside: impl FnOnce() -> Result<R, E>,
) -> io::Result<(A, Result<R, E>)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("air".to_owned());
        let thread = thread.spawn_scoped(scope, || air(&stop))?;
        // What a panic leaves half changed is dropped with it.
        let done = catch_unwind(AssertUnwindSafe(beside));
        if !matches!(done, Ok(Ok(_))) {
            stop.store(true, Ordering::Relaxed);
        }
        let carried = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((carried, done.unwrap_or_else(|panic| resume_unwind(panic))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An air that goes on until it is told to stop, and tells when it is over.
    fn endless(is_over: &AtomicBool) -> impl FnOnce(&AtomicBool) -> u32 + Send {
        move |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            is_over.store(true, Ordering::Relaxed);
            7
        }
    }

    #[test]
    fn a_panic_beside_the_air_ends_it_before_the_panic_is_caught() {
        let is_over = AtomicBool::new(false);
        let beside = || -> Result<(), ()> { panic!("a fault beside the air, which a test makes") };
        let caught = catch_unwind(AssertUnwindSafe(|| beside_the_air(endless(&is_over), beside)));
        assert!(caught.is_err() && is_over.load(Ordering::Relaxed));
    }

    #[test]
    fn an_error_beside_the_air_ends_it_and_success_lets_it_come_to_its_end() {
        let is_over = AtomicBool::new(false);
        let stopped = beside_the_air(endless(&is_over), || Err::<(), _>("stopped")).unwrap();
        assert_eq!((stopped, is_over.load(Ordering::Relaxed)), ((7, Err("stopped")), true));
        let told_to_stop = |stop: &AtomicBool| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            stop.load(Ordering::Relaxed)
        };
        assert_eq!(beside_the_air(told_to_stop, || Ok::<_, ()>(3)).unwrap(), (false, Ok(3)));
    }

    #[test]
    fn a_panic_of_the_air_goes_on_beside_it() {
        let fault = |_: &AtomicBool| -> u32 { panic!("a fault of the air, which a test makes") };
        let caught = catch_unwind(|| beside_the_air(fault, || Ok::<_, ()>(3)));
        assert!(caught.is_err());
    }
}
