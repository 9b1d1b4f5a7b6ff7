//! Packet captures of a run as pcapng, which Wireshark and tshark open; time stamps are in nanoseconds.
//!
//! Each place where packets are captured is an interface with raw IP as its link type, or IEEE 802.15.4, or
//! IEEE 802.11 with radiotap. Of a simulated packet the headers are written whole and the payload, which is
//! all zeros, is left out; its length is kept. So a minute of traffic takes megabytes, not gigabytes.

use std::borrow::Cow;
use std::io::{self, Write};

use linkhold_core::time::Instant;
use pcap_file::pcapng::PcapNgWriter as Blocks;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::emit::{
    DatagramSpec, EmitError, MAX_HEADER_LEN, PacketSpec, Payload, datagram_len, emit, emit_datagram,
    packet_len,
};

/// `if_tsresol`: time stamps count 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A place where packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// Why a packet could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be written.
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// The packet has no form on the wire.
    #[error("packet without a wire form: {0}")]
    Emit(#[from] EmitError),
}

/// Writes one capture file; its writer should be buffered.
pub struct PcapngWriter<W: Write> {
    blocks: Blocks<W>,
    interfaces: u32,
    snap_len: u32,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a capture; `comment` describes it. Of each packet at most `snap_len` bytes are kept, but never
    /// less than the headers.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn new(writer: W, comment: &str, snap_len: u32) -> Result<Self, CaptureError> {
        let section = SectionHeaderBlock {
            // Fixed, so that a capture is the same bytes on every machine.
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::Comment(Cow::Owned(option_text(comment))),
                SectionHeaderOption::UserApplication(Cow::Borrowed("linkhold")),
            ],
            ..Default::default()
        };
        let blocks = Blocks::with_section_header(writer, section).map_err(io_error)?;
        Ok(Self { blocks, interfaces: 0, snap_len: snap_len.max(MAX_HEADER_LEN as u32) })
    }

    /// Adds a place where packets are captured.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn add_interface(&mut self, name: &str, description: &str) -> Result<InterfaceId, CaptureError> {
        self.add(name, description, DataLink::RAW)
    }

    /// Adds a place where frames of IEEE 802.15.4 are captured, each with its frame check sequence.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn add_ieee802154(&mut self, name: &str, description: &str) -> Result<InterfaceId, CaptureError> {
        self.add(name, description, DataLink::IEEE802_15_4)
    }

    /// Adds a place where frames of IEEE 802.11 are captured, each behind a radiotap header.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn add_ieee80211(&mut self, name: &str, description: &str) -> Result<InterfaceId, CaptureError> {
        self.add(name, description, DataLink::IEEE802_11_RADIOTAP)
    }

    fn add(
        &mut self,
        name: &str,
        description: &str,
        linktype: DataLink,
    ) -> Result<InterfaceId, CaptureError> {
        let block = InterfaceDescriptionBlock {
            linktype,
            snaplen: self.snap_len,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(option_text(name))),
                InterfaceDescriptionOption::IfDescription(Cow::Owned(option_text(description))),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.blocks.write_pcapng_block(block).map_err(io_error)?;
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        Ok(id)
    }

    /// Captures a simulated packet: headers with correct checksums, without the payload.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn segment(
        &mut self,
        interface: InterfaceId,
        at: Instant,
        spec: &PacketSpec,
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let mut headers = [0_u8; MAX_HEADER_LEN];
        let written = emit(spec, Payload::Omitted, &mut headers)?;
        let data = headers.get(..written).unwrap_or(&headers);
        self.write(interface, at, data, packet_len(spec) as u32, comment)
    }

    /// Captures a simulated datagram of UDP, as [`segment`](Self::segment) does a segment.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn datagram(
        &mut self,
        interface: InterfaceId,
        at: Instant,
        spec: &DatagramSpec,
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let mut headers = [0_u8; MAX_HEADER_LEN];
        let written = emit_datagram(spec, &mut headers)?;
        let data = headers.get(..written).unwrap_or(&headers);
        self.write(interface, at, data, datagram_len(spec) as u32, comment)
    }

    /// Captures a packet given as bytes, cut to the snap length.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn packet(
        &mut self,
        interface: InterfaceId,
        at: Instant,
        bytes: &[u8],
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let kept = bytes.get(..self.snap_len as usize).unwrap_or(bytes);
        self.write(interface, at, kept, u32::try_from(bytes.len()).unwrap_or(u32::MAX), comment)
    }

    fn write(
        &mut self,
        interface: InterfaceId,
        at: Instant,
        data: &[u8],
        original_len: u32,
        comment: Option<&str>,
    ) -> Result<(), CaptureError> {
        let block = EnhancedPacketBlock {
            interface_id: interface.0,
            timestamp: std::time::Duration::from_nanos(at.as_nanos()),
            original_len,
            data: Cow::Borrowed(data),
            options: comment
                .map(|text| EnhancedPacketOption::Comment(Cow::Owned(option_text(text))))
                .into_iter()
                .collect(),
        };
        self.blocks.write_pcapng_block(block).map_err(io_error)?;
        Ok(())
    }

    /// Ends the capture and hands the flushed writer back.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut writer = self.blocks.into_inner();
        writer.flush()?;
        Ok(writer)
    }
}

/// Cuts `text` to what an option can hold, whose length field has 16 bits.
fn option_text(text: &str) -> String {
    let mut end = text.len().min(usize::from(u16::MAX) - 3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

fn io_error(error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(error) => CaptureError::Io(error),
        other => CaptureError::Io(io::Error::other(other)),
    }
}
