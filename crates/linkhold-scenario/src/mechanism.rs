//! The mechanisms that a file names: a name, or a table with name, preset, place and settings.
//!
//! Which names, presets, places and settings there are is the registry's to say
//! ([`linkhold_core::registry`]); nothing here knows a mechanism by name.

use linkhold_core::mechanism::Place;
use linkhold_core::registry::{self, MechanismEntry, MechanismSettings, NONE};
use linkhold_core::settings::{Key, Value as Scalar, unknown_word};
use linkhold_core::text::shorten;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, json};

use crate::document::{Node, Table, Value};
use crate::model::PlacedMechanism;
use crate::read::{At, Extra, FromNode, Reader, Spot, describe};
use crate::scalar::{checked, form_schema};

/// What stands where a file names a mechanism: `"dsasync"`, or `{ name = "dsasync", preset = "paper", … }`.
#[derive(Clone, Debug)]
pub enum MechanismValue {
    /// `"none"`: the plain router.
    None,
    /// A mechanism of the registry.
    Some(Choice),
}

/// A mechanism as a file asks for it.
#[derive(Clone, Debug)]
pub struct Choice {
    entry: &'static MechanismEntry,
    /// Where its name stands.
    name: Spot,
    preset: Option<At<&'static str>>,
    at: Option<At<Place>>,
    stated: Stated,
}

/// The settings that one table of a file states, in the order in which they are applied.
#[derive(Clone, Debug, Default)]
struct Stated(Vec<StatedKey>);

#[derive(Clone, Debug)]
struct StatedKey {
    key: &'static str,
    /// `None` after its value was reported.
    value: Option<Scalar<'static>>,
    spot: Spot,
}

impl Stated {
    fn read(table: &Table, spot: &Spot, entry: &MechanismEntry, reader: &Reader<'_>) -> Self {
        let mut scratch = entry.recommended();
        let stated = entry.keys.iter().filter_map(|Key { name, .. }| {
            let found = table.get(name)?;
            let mut spot = spot.child(name, found.node.origin);
            let value = found.node.value.scalar();
            spot.valid = checked(scratch.set(name, &value), &spot, reader).is_some();
            Some(StatedKey { key: name, value: spot.valid.then(|| value.into_owned()), spot })
        });
        Self(stated.collect())
    }

    fn apply(&self, settings: &mut MechanismSettings) {
        for StatedKey { key, value, .. } in &self.0 {
            if let Some(value) = value {
                // Reading checked it.
                settings.set(key, value).expect("a setting's value does not depend on other settings");
            }
        }
    }
}

/// A value is wrong, and was reported.
struct Reported;

impl MechanismValue {
    /// The mechanism of that name with nothing else said.
    fn named(text: &str, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        if text == NONE {
            return Some(Self::None);
        }
        let Some(entry) = registry::find(text) else {
            let error = unknown_word(&Scalar::Text(text.into()), names());
            reader.report(spot, error.what, preset_in_name(text).unwrap_or(error.right));
            return None;
        };
        let stated = Stated::default();
        Some(Self::Some(Choice { entry, name: spot.clone(), preset: None, at: None, stated }))
    }

    fn from_table(node: &Node, table: &Table, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let name: At<String> = reader.required(table, spot, "name", "Which mechanism.")?;
        let Self::Some(choice) = Self::named(&name, &name.spot, reader)? else {
            for other in table.entries.iter().filter(|entry| entry.key != "name") {
                let right = "name a mechanism, or remove it";
                let spot = spot.child(&shorten(&other.key), other.key_origin);
                reader.report(&spot, "does nothing with name = \"none\"", right);
            }
            return Some(Self::None);
        };
        let entry = choice.entry;
        let mut known = vec!["name", "preset", "at"];
        known.extend(entry.keys.iter().map(|key| key.name));
        reader.table(node, spot, &known, &|_| None)?;
        let preset = reader.optional(table, spot, "preset");
        let preset = preset.map(|preset| preset_of(entry, &preset, reader).ok_or(Reported));
        let at = table.get("at").map(|at| {
            let spot = spot.child("at", at.node.origin);
            let place = checked(entry.place(&at.node.value.scalar()), &spot, reader).ok_or(Reported)?;
            Ok(At { value: place, spot })
        });
        let stated = Stated::read(table, spot, entry, reader);
        match (preset.transpose(), at.transpose()) {
            (Ok(preset), Ok(at)) => Some(Self::Some(Choice { preset, at, stated, ..choice })),
            (Err(Reported), _) | (_, Err(Reported)) => None,
        }
    }

    /// What in the file decides on the setting `key`: the setting itself, else the preset, else the
    /// mechanism's name. `None` for the plain router.
    #[must_use]
    pub fn decides(&self, key: &str) -> Option<&Spot> {
        let Self::Some(choice) = self else { return None };
        let preset = choice.preset.as_ref().map(|preset| &preset.spot);
        Some(self.states(key).or(preset).unwrap_or(&choice.name))
    }

    /// Where the mechanism's table states the setting `key`, if it does.
    #[must_use]
    pub fn states(&self, key: &str) -> Option<&Spot> {
        let Self::Some(choice) = self else { return None };
        choice.stated.0.iter().find(|stated| stated.key == key).map(|stated| &stated.spot)
    }

    /// The mechanism with everything filled in: its preset (`preset` where its own table names none), over
    /// that the `shared` settings, over those its own. `None` for the plain router, and after a report.
    pub fn resolve(
        &self,
        preset: Option<&At<String>>,
        shared: &SharedSettings,
        reader: &Reader<'_>,
    ) -> Option<PlacedMechanism> {
        let Self::Some(choice) = self else {
            if let Some(preset) = preset {
                reader.report(&preset.spot, "does nothing with mechanism = \"none\"", "remove it");
            }
            return None;
        };
        let preset = match (&choice.preset, preset) {
            (Some(own), Some(beside)) => {
                let what =
                    format!("the mechanism's table has a preset already ({})", reader.location(&own.spot));
                reader.report(&beside.spot, what, "keep one of them");
                return None;
            }
            (Some(own), None) => Some(own.value),
            (None, Some(beside)) => Some(preset_of(choice.entry, beside, reader)?.value),
            (None, None) => None,
        };
        let mut settings = preset.map_or_else(
            || choice.entry.recommended(),
            |name| choice.entry.preset(name).expect("a preset of this mechanism"),
        );
        let tables: Vec<&Stated> = shared.of(choice.entry).chain([&choice.stated]).collect();
        for table in &tables {
            table.apply(&mut settings);
        }
        if let Err(error) = settings.validate() {
            // Where each key concerned gets its value: in the last table that states it.
            let decides = |key: &&str| {
                let keys = tables.iter().rev().flat_map(|table| &table.0);
                keys.into_iter().find(|stated| stated.key == *key).map(|stated| &stated.spot)
            };
            let mut spots: Vec<&Spot> = error.keys.iter().filter_map(decides).collect();
            if spots.is_empty() {
                spots.push(&choice.name);
            }
            reader.report_between(&spots, error.error.what, error.error.right);
            return None;
        }
        let place = choice.at.as_ref().map_or(choice.entry.natural_place(), |at| at.value);
        Some(PlacedMechanism { place, settings })
    }
}

/// The mechanisms that a file names under `mechanism`, or in the list `mechanisms`: `None` after reporting
/// that it writes both.
pub fn one_or_several<'a>(
    one: Option<&'a At<MechanismValue>>,
    several: Option<&'a At<Vec<At<MechanismValue>>>>,
    reader: &Reader<'_>,
) -> Option<Vec<&'a At<MechanismValue>>> {
    match (one, several) {
        (Some(one), Some(several)) => {
            let what = format!("stands beside `mechanism` ({})", reader.location(&one.spot));
            reader.report(&several.spot, what, "keep one of them");
            None
        }
        (one, several) => {
            Some(one.into_iter().chain(several.into_iter().flat_map(|list| list.iter())).collect())
        }
    }
}

/// What a file can write as a mechanism's name.
fn names() -> impl Iterator<Item = &'static str> + Clone {
    [NONE].into_iter().chain(registry::entries().iter().map(|entry| entry.name))
}

fn preset_of(entry: &MechanismEntry, preset: &At<String>, reader: &Reader<'_>) -> Option<At<&'static str>> {
    let known = entry.presets.iter().map(|(name, _)| *name);
    match known.clone().find(|name| *name == preset.value) {
        Some(value) => Some(At { value, spot: preset.spot.clone() }),
        None => {
            let error = unknown_word(&Scalar::Text(preset.value.as_str().into()), known);
            reader.report(&preset.spot, error.what, error.right);
            None
        }
    }
}

/// What to write in place of a name such as `dsasync-paper`.
fn preset_in_name(text: &str) -> Option<String> {
    registry::entries().iter().find_map(|entry| {
        let wanted = text.strip_prefix(entry.name)?.strip_prefix('-')?;
        let (preset, _) = entry.presets.iter().find(|(name, _)| name.replace('+', "-") == wanted)?;
        Some(format!("write {:?} with preset = {preset:?}", entry.name))
    })
}

impl FromNode for MechanismValue {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) => Self::named(text, spot, reader),
            Value::Table(table) => Self::from_table(node, table, spot, reader),
            other => {
                let right = "write its name, or { name = \"dsasync\", preset = \"paper\" }";
                reader.report(spot, format!("expected a mechanism, got {}", other.describe()), right);
                None
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let none = json!({ "const": NONE, "description": "The plain router." });
        let name = |entry: &MechanismEntry| json!({ "const": entry.name, "description": entry.summary });
        let mut any: Vec<serde_json::Value> =
            [none].into_iter().chain(registry::entries().iter().map(name)).collect();
        for entry in registry::entries() {
            any.push(
                definition(generator, format!("{}-mechanism", entry.name), || table_schema(entry)).into(),
            );
        }
        json_schema!({ "anyOf": any })
    }
}

/// The schema's own definition of `name`, made by `make`, and a reference to it.
fn definition(generator: &mut SchemaGenerator, name: String, make: impl FnOnce() -> Schema) -> Schema {
    let reference = Schema::new_ref(format!("#/$defs/{name}"));
    generator.definitions_mut().insert(name, make().into());
    reference
}

/// The keys of a mechanism's table. The defaults are those of its recommended preset.
fn properties(entry: &MechanismEntry) -> Map<String, serde_json::Value> {
    let recommended = entry.recommended().values();
    let property = |key: &Key| {
        let usual = recommended.iter().find(|(name, _)| *name == key.name);
        let usual = usual.and_then(|(_, value)| serde_json::to_value(value).ok());
        (key.name.to_owned(), describe(form_schema(&key.form), key.doc, usual).into())
    };
    entry.keys.iter().map(property).collect()
}

fn table_schema(entry: &MechanismEntry) -> Schema {
    let words = |words: Vec<(&str, &str)>| -> serde_json::Value {
        words.into_iter().map(|(word, doc)| json!({ "const": word, "description": doc })).collect()
    };
    let places = entry.places.iter().map(|place| (place.name(), place.doc())).collect();
    let mut all = Map::from_iter([
        ("name".to_owned(), json!({ "const": entry.name, "description": "Which mechanism." })),
        (
            "preset".to_owned(),
            json!({
                "oneOf": words(entry.presets.clone()), "default": entry.presets[0].0,
                "description": "What the settings start from.",
            }),
        ),
        (
            "at".to_owned(),
            json!({
                "oneOf": words(places), "default": entry.natural_place().name(),
                "description": "Where it stands.",
            }),
        ),
    ]);
    all.extend(properties(entry));
    json_schema!({
        "type": "object", "description": entry.summary, "properties": all, "required": ["name"],
        "additionalProperties": false,
    })
}

/// The tables at the top of a file that hold settings for all of its cases, one for each mechanism:
/// `[dsasync]`.
#[derive(Clone, Debug, Default)]
pub struct SharedSettings(Vec<(&'static str, Spot, Stated)>);

impl SharedSettings {
    fn of<'a>(&'a self, entry: &'a MechanismEntry) -> impl Iterator<Item = &'a Stated> {
        self.0.iter().filter(|(name, _, _)| *name == entry.name).map(|(_, _, stated)| stated)
    }

    /// A hint for each table of a mechanism that no case has: `runs` says whether one does.
    #[must_use]
    pub fn unused(&self, runs: impl Fn(&str) -> bool, reader: &Reader<'_>) -> Vec<String> {
        let unused = self.0.iter().filter(|(name, _, _)| !runs(name));
        let hint = |(name, spot, _): &(&str, Spot, Stated)| {
            let what = format!("no case has the mechanism {name}, so its settings do nothing");
            reader.remark(spot, what, format!("write mechanism = {name:?} in a case, or remove them"))
        };
        unused.map(hint).collect()
    }
}

impl Extra for SharedSettings {
    fn keys() -> Vec<&'static str> {
        registry::entries().iter().map(|entry| entry.name).collect()
    }

    fn read(table: &Table, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let stated = registry::entries().iter().filter_map(|mechanism| {
            let entry = table.get(mechanism.name)?;
            let spot = spot.child(mechanism.name, entry.node.origin);
            let known: Vec<&str> = mechanism.keys.iter().map(|key| key.name).collect();
            let table = reader.table(&entry.node, &spot, &known, &|_| None)?;
            let stated = Stated::read(table, &spot, mechanism, reader);
            Some((mechanism.name, spot, stated))
        });
        Some(Self(stated.collect()))
    }

    fn properties(generator: &mut SchemaGenerator) -> Vec<(String, Schema)> {
        let table = |entry: &MechanismEntry| {
            let description = format!(
                "Settings that all cases with {0} share. What is left open comes from the preset; what stands in \
                 a case's own table goes before it.",
                entry.name
            );
            let reference = definition(generator, entry.name.to_owned(), || {
                json_schema!({
                    "type": "object", "description": entry.summary, "properties": properties(entry),
                    "additionalProperties": false,
                })
            });
            (entry.name.to_owned(), describe(reference, &description, None))
        };
        registry::entries().iter().map(table).collect()
    }
}

/// Keys that look as if they belonged into a case, and where they do belong.
#[derive(Clone, Debug)]
pub(crate) struct MisplacedKeys;

impl Extra for MisplacedKeys {
    fn hint(key: &str) -> Option<String> {
        let found = registry::entries().iter().find_map(|entry| {
            let setting = (entry.name == key).then(|| entry.keys[0].name);
            let setting = setting.or_else(|| entry.keys.iter().map(|k| k.name).find(|name| *name == key))?;
            Some((entry.name, setting))
        });
        let example = match found {
            Some((name, setting)) => format!("{{ name = {name:?}, {setting} = ... }}"),
            None if key == "at" => format!("{{ name = ..., at = {:?} }}", Place::BaseStation.name()),
            None => return None,
        };
        Some(format!("write it in the mechanism's own table: mechanism = {example}"))
    }

    fn read(_: &Table, _: &Spot, _: &Reader<'_>) -> Option<Self> {
        Some(Self)
    }
}
