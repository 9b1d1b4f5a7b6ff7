//! Parquet files of a run: `flows.parquet`, `series.parquet`, `silences.parquet`.
//!
//! A column's name ends with its unit, as in the JSON. Rows are written in row groups as they come in, so
//! memory does not grow with their number. A file appears whole, by renaming, or not at all. A number that
//! does not exist is null.

mod table;

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use ::parquet::errors::ParquetError;
use linkhold_core::link_event::Scope;

use crate::record::{Program, RunRecord};
use crate::series::{RunSeries, cause_name};
use crate::traffic::{MediaRecord, QuicRecord, UdpRecord, WebRecord};
use table::{Column, Kind, TableWriter, Value};

/// Why the files were not written.
#[derive(Debug, thiserror::Error)]
pub enum ParquetFailure {
    /// A file could not be made, written or renamed.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The encoder failed, most likely because the disk is full.
    #[error("cannot write {}: {source}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder says.
        source: ParquetError,
    },
}

/// One row for each flow of each run.
const FLOWS: &[Column] = &[
    Column("case", Kind::Text),
    Column("seed", Kind::Integer),
    Column("flow", Kind::Integer),
    Column("direction", Kind::Text),
    Column("station", Kind::Integer),
    Column("start_s", Kind::Number),
    Column("goodput_bps", Kind::Number),
    Column("retransmit_bps", Kind::Number),
    Column("retransmits", Kind::Integer),
    Column("rto_events", Kind::Integer),
    Column("spurious_rtos", Kind::Integer),
    Column("fast_recoveries", Kind::Integer),
    Column("bytes", Kind::Integer),
    Column("delay_mean_s", Kind::Number),
    Column("delay_std_s", Kind::Number),
    Column("delay_p50_s", Kind::Number),
    Column("delay_p99_s", Kind::Number),
    Column("delay_p50_outside_silence_s", Kind::Number),
    Column("delay_p99_outside_silence_s", Kind::Number),
    Column("completion_s", Kind::Number),
    Column("resume_p50_s", Kind::Number),
    Column("transport", Kind::Text),
    Column("datagrams_sent", Kind::Integer),
    Column("datagrams_delivered", Kind::Integer),
    Column("datagrams_lost", Kind::Integer),
    Column("datagrams_reordered", Kind::Integer),
    Column("jitter_s", Kind::Number),
    Column("media_startup_s", Kind::Number),
    Column("media_stalls", Kind::Integer),
    Column("media_stalled_s", Kind::Number),
    Column("media_played_bytes", Kind::Integer),
    Column("media_lost_bytes", Kind::Integer),
    Column("web_pages", Kind::Integer),
    Column("web_objects", Kind::Integer),
    Column("web_page_mean_s", Kind::Number),
    Column("web_page_p50_s", Kind::Number),
    Column("web_page_p95_s", Kind::Number),
    Column("delay_p95_s", Kind::Number),
    Column("delay_p95_outside_silence_s", Kind::Number),
    Column("delay_min_s", Kind::Number),
    Column("queueing_delay_p50_s", Kind::Number),
    Column("queueing_delay_p95_s", Kind::Number),
    Column("queueing_delay_p99_s", Kind::Number),
    Column("kept_rtos", Kind::Integer),
    Column("quic_sent", Kind::Integer),
    Column("quic_declared_lost", Kind::Integer),
    Column("quic_spurious", Kind::Integer),
    Column("quic_congestion_events", Kind::Integer),
    Column("quic_persistent_congestion", Kind::Integer),
    Column("quic_probe_timeouts", Kind::Integer),
    Column("quic_rtt_s", Kind::Number),
];

/// One row for each interval of a flow, or, where `flow` is null, of the router.
const SERIES: &[Column] = &[
    Column("case", Kind::Text),
    Column("seed", Kind::Integer),
    Column("flow", Kind::Integer),
    Column("t_s", Kind::Number),
    Column("goodput_bps", Kind::Number),
    Column("cwnd_bytes", Kind::Number),
    Column("ssthresh_bytes", Kind::Number),
    Column("rtt_s", Kind::Number),
    Column("in_flight_bytes", Kind::Number),
    Column("rto_events", Kind::Integer),
    Column("limit_bps", Kind::Number),
    Column("held_bytes", Kind::Number),
    Column("queue_bytes", Kind::Number),
];

/// One row for each silence; `station` is null if the whole network was silent.
const SILENCES: &[Column] = &[
    Column("case", Kind::Text),
    Column("seed", Kind::Integer),
    Column("start_s", Kind::Number),
    Column("end_s", Kind::Number),
    Column("cause", Kind::Text),
    Column("station", Kind::Integer),
];

/// Writes the three files of a command, run by run.
pub struct ParquetFiles {
    flows: Output,
    series: Output,
    silences: Output,
}

impl ParquetFiles {
    /// Starts the three files in `folder`, which has to exist; `program` stands in each as what created it.
    ///
    /// # Errors
    /// [`ParquetFailure`].
    pub fn create(folder: &Path, program: &Program) -> Result<Self, ParquetFailure> {
        Ok(Self {
            flows: Output::create(folder, "flows.parquet", FLOWS, program)?,
            series: Output::create(folder, "series.parquet", SERIES, program)?,
            silences: Output::create(folder, "silences.parquet", SILENCES, program)?,
        })
    }

    /// Adds one run.
    ///
    /// # Errors
    /// [`ParquetFailure`].
    pub fn add(&mut self, run: &RunRecord, series: &RunSeries) -> Result<(), ParquetFailure> {
        self.add_flows(run)?;
        self.add_series(series)?;
        self.add_silences(series)
    }

    fn add_flows(&mut self, run: &RunRecord) -> Result<(), ParquetFailure> {
        for flow in &run.flows {
            let udp = |of: fn(&UdpRecord) -> u64| {
                flow.udp.as_ref().map_or(Value::Null, |udp| Value::Integer(of(udp)))
            };
            let quic = |of: fn(&QuicRecord) -> u64| {
                flow.quic.as_ref().map_or(Value::Null, |quic| Value::Integer(of(quic)))
            };
            let count = |of: fn(&MediaRecord) -> u64| {
                flow.media.as_ref().map_or(Value::Null, |media| Value::Integer(of(media)))
            };
            let pages = |of: fn(&WebRecord) -> u64| {
                flow.web.as_ref().map_or(Value::Null, |web| Value::Integer(of(web)))
            };
            let time = |of: fn(&WebRecord) -> f64| {
                flow.web.as_ref().map_or(Value::Null, |web| Value::Number(of(web)))
            };
            let known = |count: Option<u64>| count.map_or(Value::Null, Value::Integer);
            let startup = flow.media.as_ref().and_then(|media| media.startup_s);
            self.flows.row(&[
                Value::Text(&run.case),
                Value::Integer(run.seed),
                Value::Integer(flow.id.into()),
                Value::Text(flow.direction.name()),
                Value::Integer(flow.station.into()),
                Value::Number(flow.start_s),
                Value::Number(flow.goodput_bps),
                Value::Number(flow.retransmit_bps),
                Value::Integer(flow.retransmits),
                known(flow.rto_events),
                known(flow.spurious_rtos),
                known(flow.fast_recoveries),
                Value::Integer(flow.bytes),
                Value::Number(flow.delay_mean_s),
                Value::Number(flow.delay_std_s),
                Value::Number(flow.delay_p50_s),
                Value::Number(flow.delay_p99_s),
                Value::Number(flow.delay_p50_outside_silence_s),
                Value::Number(flow.delay_p99_outside_silence_s),
                flow.completion_s.map_or(Value::Null, Value::Number),
                flow.resume_p50_s.map_or(Value::Null, Value::Number),
                Value::Text(flow.transport.name()),
                udp(|udp| udp.sent),
                udp(|udp| udp.delivered),
                udp(|udp| udp.lost),
                udp(|udp| udp.reordered),
                flow.udp.as_ref().map_or(Value::Null, |udp| Value::Number(udp.jitter_s)),
                startup.map_or(Value::Null, Value::Number),
                count(|media| media.stalls),
                flow.media.as_ref().map_or(Value::Null, |media| Value::Number(media.stalled_s)),
                count(|media| media.played_bytes),
                count(|media| media.lost_bytes),
                pages(|web| web.pages),
                pages(|web| web.objects),
                time(|web| web.page_mean_s),
                time(|web| web.page_p50_s),
                time(|web| web.page_p95_s),
                Value::Number(flow.delay_p95_s),
                Value::Number(flow.delay_p95_outside_silence_s),
                Value::Number(flow.delay_min_s),
                Value::Number(flow.queueing_delay_p50_s),
                Value::Number(flow.queueing_delay_p95_s),
                Value::Number(flow.queueing_delay_p99_s),
                known(flow.kept_rtos),
                quic(|quic| quic.sent),
                quic(|quic| quic.declared_lost),
                quic(|quic| quic.spurious),
                quic(|quic| quic.congestion_events),
                quic(|quic| quic.persistent_congestion),
                quic(|quic| quic.probe_timeouts),
                flow.quic.as_ref().map_or(Value::Null, |quic| Value::Number(quic.rtt_s)),
            ])?;
        }
        Ok(())
    }

    fn add_series(&mut self, run: &RunSeries) -> Result<(), ParquetFailure> {
        let at = |values: &[f64], index: usize| values.get(index).map_or(Value::Null, |&v| Value::Number(v));
        for flow in &run.flows {
            for (index, &t) in flow.t_s.iter().enumerate() {
                self.series.row(&[
                    Value::Text(&run.case),
                    Value::Integer(run.seed),
                    Value::Integer(flow.flow.into()),
                    Value::Number(t),
                    at(&flow.goodput_bps, index),
                    at(&flow.cwnd_bytes, index),
                    at(&flow.ssthresh_bytes, index),
                    at(&flow.rtt_s, index),
                    at(&flow.in_flight_bytes, index),
                    flow.rto_events.get(index).map_or(Value::Null, |&n| Value::Integer(n)),
                    Value::Null,
                    Value::Null,
                    Value::Null,
                ])?;
            }
        }
        let router = &run.router;
        for (index, &t) in router.t_s.iter().enumerate() {
            self.series.row(&[
                Value::Text(&run.case),
                Value::Integer(run.seed),
                Value::Null,
                Value::Number(t),
                at(&router.goodput_bps, index),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                at(&router.limit_bps, index),
                at(&router.held_bytes, index),
                at(&router.queue_bytes, index),
            ])?;
        }
        Ok(())
    }

    fn add_silences(&mut self, run: &RunSeries) -> Result<(), ParquetFailure> {
        for silence in &run.silences {
            self.silences.row(&[
                Value::Text(&run.case),
                Value::Integer(run.seed),
                Value::Number(silence.start_s),
                Value::Number(silence.end_s),
                Value::Text(cause_name(silence.cause)),
                match silence.scope {
                    Scope::Network => Value::Null,
                    Scope::Station(station) => Value::Integer(station.0.into()),
                },
            ])?;
        }
        Ok(())
    }

    /// Completes the files and gives them their names. Without this call, dropping `self` removes them.
    ///
    /// # Errors
    /// [`ParquetFailure`].
    pub fn finish(self) -> Result<(), ParquetFailure> {
        for output in [self.flows, self.series, self.silences] {
            output.finish()?;
        }
        Ok(())
    }
}

/// One file; it has a temporary name until it is whole.
struct Output {
    partial: PathBuf,
    path: PathBuf,
    table: Option<TableWriter<BufWriter<File>>>,
}

impl Output {
    fn create(
        folder: &Path,
        name: &str,
        columns: &'static [Column],
        program: &Program,
    ) -> Result<Self, ParquetFailure> {
        let path = folder.join(name);
        let partial = folder.join(format!(".{name}.partial"));
        let file =
            File::create(&partial).map_err(|source| ParquetFailure::Io { path: partial.clone(), source })?;
        let table = TableWriter::new(BufWriter::new(file), columns, program)
            .map_err(|source| ParquetFailure::Encode { path: path.clone(), source })?;
        Ok(Self { partial, path, table: Some(table) })
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ParquetFailure> {
        let Some(table) = &mut self.table else { return Ok(()) };
        table.row(values).map_err(|source| ParquetFailure::Encode { path: self.path.clone(), source })
    }

    fn finish(mut self) -> Result<(), ParquetFailure> {
        if let Some(table) = self.table.take() {
            table.finish().map_err(|source| ParquetFailure::Encode { path: self.path.clone(), source })?;
        }
        fs::rename(&self.partial, &self.path)
            .map_err(|source| ParquetFailure::Io { path: self.path.clone(), source })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After `finish` nothing has the temporary name, and this removes nothing.
        let _ = fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunReport;
    use crate::sample;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::{Row, RowAccessor};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_written_is_read_back_and_missing_numbers_are_null() {
        let folder = tempfile::tempdir().unwrap();
        let (mut report, series) = sample::run(2);
        report.runs[0].flows[0].delay_p99_s = f64::NAN;
        let mut files = ParquetFiles::create(folder.path(), &report.program).unwrap();
        for (run, over_time) in report.runs.iter().zip(&series) {
            files.add(run, over_time).unwrap();
        }
        files.finish().unwrap();
        assert_eq!(names(folder.path()), ["flows.parquet", "series.parquet", "silences.parquet"]);

        let open =
            |name: &str| SerializedFileReader::new(File::open(folder.path().join(name)).unwrap()).unwrap();
        let flows = open("flows.parquet");
        let rows: Vec<_> = flows.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), report.runs.len());
        for (row, run) in rows.iter().zip(&report.runs) {
            assert_eq!(row.get_string(0).unwrap(), &run.case);
            assert_eq!(row.get_long(1).unwrap() as u64, run.seed);
            assert_eq!(row.get_double(6).unwrap(), run.flows[0].goodput_bps);
        }
        assert!(rows[0].get_double(16).is_err(), "null");
        let column = |name: &str| FLOWS.iter().position(|column| column.0 == name).unwrap();
        let (flow, row) = (&report.runs[1].flows[0], &rows[1]);
        for (name, value) in [
            ("delay_p95_s", flow.delay_p95_s),
            ("delay_p95_outside_silence_s", flow.delay_p95_outside_silence_s),
            ("delay_min_s", flow.delay_min_s),
            ("queueing_delay_p95_s", flow.queueing_delay_p95_s),
        ] {
            assert_eq!(row.get_double(column(name)).unwrap(), value, "{name}");
        }
        assert_eq!(rows[1].get_double(16).unwrap(), report.runs[1].flows[0].delay_p99_s);

        let expected: usize = series.iter().map(|s| s.router.t_s.len() + s.flows[0].t_s.len()).sum();
        assert_eq!(open("series.parquet").metadata().file_metadata().num_rows() as usize, expected);
        let expected: usize = series.iter().map(|s| s.silences.len()).sum();
        assert_eq!(open("silences.parquet").metadata().file_metadata().num_rows() as usize, expected);
    }

    /// The flows of two runs, of which the first is changed.
    fn flows_of_one_and_of_a_plain_run(change: fn(&mut RunReport)) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let (plain, series) = sample::run(1);
        let mut report = plain.clone();
        change(&mut report);
        let mut files = ParquetFiles::create(folder.path(), &report.program).unwrap();
        files.add(&report.runs[0], &series[0]).unwrap();
        files.add(&plain.runs[1], &series[1]).unwrap();
        files.finish().unwrap();
        let flows =
            SerializedFileReader::new(File::open(folder.path().join("flows.parquet")).unwrap()).unwrap();
        flows.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn datagrams_players_and_pages_have_columns_that_are_null_elsewhere() {
        let rows = flows_of_one_and_of_a_plain_run(sample::with_traffic);
        let column = |name: &str| FLOWS.iter().position(|column| column.0 == name).unwrap();
        assert_eq!(rows[0].get_string(column("transport")).unwrap(), "udp");
        assert_eq!(rows[1].get_string(column("transport")).unwrap(), "tcp");
        for (name, value) in
            [("datagrams_lost", 20), ("media_stalls", 3), ("web_pages", 17), ("web_objects", 90)]
        {
            assert_eq!(rows[0].get_long(column(name)).unwrap(), value, "{name}");
            assert!(rows[1].get_long(column(name)).is_err(), "{name} is null");
        }
        for (name, value) in [("jitter_s", 0.002), ("media_startup_s", 1.25), ("web_page_p95_s", 2.5)] {
            assert_eq!(rows[0].get_double(column(name)).unwrap(), value, "{name}");
            assert!(rows[1].get_double(column(name)).is_err(), "{name} is null");
        }
    }

    #[test]
    fn a_quic_flow_has_columns_that_are_null_elsewhere() {
        let rows = flows_of_one_and_of_a_plain_run(sample::with_quic);
        let column = |name: &str| FLOWS.iter().position(|column| column.0 == name).unwrap();
        assert_eq!(rows[0].get_string(column("transport")).unwrap(), "quic");
        for (name, value) in [
            ("datagrams_lost", 10),
            ("quic_sent", 1000),
            ("quic_declared_lost", 25),
            ("quic_spurious", 15),
            ("quic_congestion_events", 7),
            ("quic_persistent_congestion", 1),
            ("quic_probe_timeouts", 41),
        ] {
            assert_eq!(rows[0].get_long(column(name)).unwrap(), value, "{name}");
            assert!(rows[1].get_long(column(name)).is_err(), "{name} is null");
        }
        assert_eq!(rows[0].get_double(column("quic_rtt_s")).unwrap(), 0.0625);
        assert!(rows[1].get_double(column("quic_rtt_s")).is_err());
    }

    #[test]
    fn files_that_were_not_finished_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (report, series) = sample::run(1);
        let mut files = ParquetFiles::create(folder.path(), &report.program).unwrap();
        files.add(&report.runs[0], &series[0]).unwrap();
        drop(files);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let Err(error) = ParquetFiles::create(Path::new("/nonexistent/folder"), &Program::default()) else {
            panic!()
        };
        assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
    }
}
