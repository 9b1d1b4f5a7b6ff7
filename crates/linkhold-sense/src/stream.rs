//! Reads samples a block at a time, in memory that does not grow.

use std::io::{self, Read};

use crate::sample::{Format, Sample};

/// Why samples cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input failed.
    #[error("cannot read after sample {sample}: {source}")]
    Input {
        /// Samples read before.
        sample: u64,
        /// The system's answer.
        source: io::Error,
    },
}

/// A stream of samples in blocks of one length. What is left at the end and fills no block is counted, and
/// not handed out.
#[derive(Debug)]
pub struct Blocks<R> {
    input: R,
    format: Format,
    bytes: Vec<u8>,
    samples: Vec<Sample>,
    read: u64,
    tail_bytes: usize,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    /// Reads `input` in blocks of `block` samples.
    pub fn new(input: R, format: Format, block: usize) -> Self {
        Self {
            input,
            format,
            bytes: vec![0; block.max(1) * format.size()],
            samples: vec![Sample::default(); block.max(1)],
            read: 0,
            tail_bytes: 0,
            ended: false,
        }
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`] if the input fails. Nothing more can be read then.
    pub fn next_block(&mut self) -> Result<Option<&[Sample]>, ReadError> {
        let mut filled = 0;
        while !self.ended && filled < self.bytes.len() {
            match self.input.read(&mut self.bytes[filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    self.ended = true;
                    return Err(ReadError::Input { sample: self.read, source });
                }
            }
        }
        if filled < self.bytes.len() {
            self.tail_bytes += filled;
            return Ok(None);
        }
        self.format.decode(&self.bytes, &mut self.samples);
        self.read += self.samples.len() as u64;
        Ok(Some(&self.samples))
    }

    /// Samples handed out so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.read
    }

    /// Samples at the end that filled no block, and bytes behind them that are no whole sample.
    #[must_use]
    pub fn tail(&self) -> (u64, usize) {
        let size = self.format.size();
        ((self.tail_bytes / size) as u64, self.tail_bytes % size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time, as a slow pipe may.
    struct Dribble<'a>(&'a [u8]);

    impl Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut out[..1])
        }
    }

    #[test]
    fn blocks_are_whole_and_the_rest_is_counted() {
        let bytes: Vec<u8> = (0..23).collect();
        let mut blocks = Blocks::new(Dribble(&bytes), Format::Ci8, 4);
        let mut seen = Vec::new();
        while let Some(block) = blocks.next_block().expect("a slice can be read") {
            seen.push(block.to_vec());
        }
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1][0], Sample::new(8.0 / 128.0, 9.0 / 128.0));
        // 23 bytes are two blocks of 8, three samples and a byte.
        assert_eq!((blocks.samples(), blocks.tail()), (8, (3, 1)));
        assert!(blocks.next_block().expect("still at the end").is_none());
    }

    #[test]
    fn a_failing_input_says_where() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("unplugged"))
            }
        }
        let error = Blocks::new(Broken, Format::Cf32, 4).next_block().expect_err("it fails");
        assert_eq!(error.to_string(), "cannot read after sample 0: unplugged");
    }
}
