//! What an event of the hosts means, packed in 32 bits.

/// What an event means: the kind goes into the upper 3 bits, a number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The timer of an endpoint, or of a UDP sender: flow times two plus side.
    Timer(u32),
    /// A planned flow opens.
    Open(u32),
    /// A random arrival.
    Arrival(u32),
    /// The warm-up is over.
    WarmUp,
    /// A series interval is over.
    Sample,
    /// The application of a planned flow stops.
    Stop(u32),
    /// The application of a flow wakes.
    Application(u32),
}

const KIND_SHIFT: u32 = 29;

impl Token {
    pub(super) const fn pack(self) -> u32 {
        match self {
            Self::Timer(n) => n,
            Self::Open(n) => 1 << KIND_SHIFT | n,
            Self::Arrival(n) => 2 << KIND_SHIFT | n,
            Self::WarmUp => 3 << KIND_SHIFT,
            Self::Sample => 4 << KIND_SHIFT,
            Self::Stop(n) => 5 << KIND_SHIFT | n,
            Self::Application(n) => 6 << KIND_SHIFT | n,
        }
    }

    pub(super) const fn unpack(token: u32) -> Self {
        let number = token & ((1 << KIND_SHIFT) - 1);
        match token >> KIND_SHIFT {
            0 => Self::Timer(number),
            1 => Self::Open(number),
            2 => Self::Arrival(number),
            3 => Self::WarmUp,
            4 => Self::Sample,
            5 => Self::Stop(number),
            _ => Self::Application(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Timer(5),
            Token::Open(0),
            Token::Arrival(77),
            Token::WarmUp,
            Token::Sample,
            Token::Stop(3),
            Token::Application(9),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
