//! Collects rows and writes them as Parquet row groups: the small part of the format that linkhold's files
//! need.
//!
//! It does without the `arrow` feature of the `parquet` crate, which would triple that crate's build time.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::record::Program;

/// Rows in a row group: a few megabytes.
const ROWS_A_GROUP: usize = 65_536;

/// Name and kind of a column. Every column may hold nulls.
#[derive(Clone, Copy)]
pub(super) struct Column(pub(super) &'static str, pub(super) Kind);

/// What a column holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// UTF-8 text.
    Text,
    /// Counters and identifiers, below 2^63.
    Integer,
    /// Measured values.
    Number,
}

/// One cell.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Integer(u64),
    /// Null if it is not finite.
    Number(f64),
    Null,
}

/// The values of one column since the last row group. `levels` has an entry for every row: 1 for a value, 0
/// for a null, which has no entry in `values`.
struct Pending {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Text(Vec<ByteArray>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
}

impl Pending {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Text => Values::Text(Vec::new()),
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
        };
        Self { levels: Vec::new(), values }
    }

    fn push(&mut self, value: Value<'_>) -> Result<(), ParquetError> {
        let there = match (&mut self.values, value) {
            (_, Value::Null) => false,
            (Values::Number(_), Value::Number(number)) if !number.is_finite() => false,
            (Values::Number(values), Value::Number(number)) => {
                values.push(number);
                true
            }
            (Values::Integer(values), Value::Integer(number)) => {
                values.push(i64::try_from(number).unwrap_or(i64::MAX));
                true
            }
            (Values::Text(values), Value::Text(text)) => {
                values.push(ByteArray::from(text));
                true
            }
            (Values::Text(_) | Values::Integer(_) | Values::Number(_), _) => {
                return Err(ParquetError::General("a value of another kind than its column".to_owned()));
            }
        };
        self.levels.push(i16::from(there));
        Ok(())
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Text(values) => values.clear(),
            Values::Integer(values) => values.clear(),
            Values::Number(values) => values.clear(),
        }
    }
}

/// Writes one file.
pub(super) struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Pending>,
    rows: usize,
}

impl<W: Write + Send> TableWriter<W> {
    pub(super) fn new(writer: W, columns: &[Column], program: &Program) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("linkhold").with_fields(fields).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // In the form that the format's specification asks for.
            .set_created_by(format!("linkhold version {} (build {})", program.version, program.commit))
            .build();
        Ok(Self {
            file: SerializedFileWriter::new(writer, Arc::new(schema), Arc::new(properties))?,
            columns: columns.iter().map(|column| Pending::new(column.1)).collect(),
            rows: 0,
        })
    }

    /// Adds a row: one value for each column, in the order of the columns.
    pub(super) fn row(&mut self, values: &[Value<'_>]) -> Result<(), ParquetError> {
        if values.len() != self.columns.len() {
            return Err(ParquetError::General("a row with another number of values than columns".to_owned()));
        }
        for (column, &value) in self.columns.iter_mut().zip(values) {
            column.push(value)?;
        }
        self.rows += 1;
        if self.rows == ROWS_A_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            let levels = Some(column.levels.as_slice());
            match &column.values {
                Values::Text(values) => writer.typed::<ByteArrayType>().write_batch(values, levels, None)?,
                Values::Integer(values) => writer.typed::<Int64Type>().write_batch(values, levels, None)?,
                Values::Number(values) => writer.typed::<DoubleType>().write_batch(values, levels, None)?,
            };
            writer.close()?;
            column.clear();
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the remaining rows and the footer.
    pub(super) fn finish(mut self) -> Result<(), ParquetError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.file.close()?;
        Ok(())
    }
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let Column(name, kind) = *column;
    let (physical, logical) = match kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Integer => (PhysicalType::INT64, None),
        Kind::Number => (PhysicalType::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}
