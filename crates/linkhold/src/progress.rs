//! Progress bars on standard error, where that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

/// The newest bar.
static NEWEST: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// A bar of `steps`, which is hidden if standard error is no terminal.
pub fn bar(label: &str, steps: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    let style =
        ProgressStyle::with_template("{msg:20} [{bar:40}] {percent:>3} % {elapsed} (about {eta} left)")
            .expect("the template is a constant");
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(label.to_owned());
    *newest() = Some(bar.downgrade());
    bar
}

fn newest() -> std::sync::MutexGuard<'static, Option<WeakProgressBar>> {
    NEWEST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Standard error, from which the newest bar steps aside for each line.
pub struct AboveBar;

impl Write for AboveBar {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let bar = newest().as_ref().and_then(WeakProgressBar::upgrade);
        match bar {
            Some(bar) => bar.suspend(|| io::stderr().write_all(line))?,
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A progress bar for each figure, one after the other.
#[derive(Default)]
pub struct FigureProgress {
    current: Mutex<Option<ProgressBar>>,
}

impl FigureProgress {
    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        // A poisoned lock means that another thread panicked; then the bar no longer matters.
        if let Ok(mut current) = self.current.lock() {
            act(&mut current);
        }
    }
}

impl linkhold_reproduce::Progress for FigureProgress {
    fn begin(&self, figure: &str, runs: u64) {
        self.with(|current| *current = Some(bar(figure, runs)));
    }

    fn tick(&self) {
        self.with(|current| {
            if let Some(bar) = current {
                bar.inc(1);
            }
        });
    }

    fn end(&self) {
        self.with(|current| {
            if let Some(bar) = current.take() {
                bar.finish_and_clear();
            }
        });
    }
}
