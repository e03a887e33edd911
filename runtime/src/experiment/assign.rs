//! `key=value` for an experiment: keys of the grid, of `[data]` and `[glue]`, and of the settings of every run.

use super::file::{DECIDED, File, KEYS, unknown};
use crate::train::settings::{Settings, known_keys, parsed};
use toml::{Table, Value};

/// Lists, which may be given as `a,b`.
const LISTS: [&str; 6] = ["recipes", "sizes", "windows", "seeds", "glue.tasks", "glue.seeds"];

/// What is replaced as it is.
const SINGLE: [&str; 2] = ["baseline", "preset"];

/// The experiment with one value replaced. One of the settings holds for all sizes, whatever a size says of it.
pub fn with(file: &File, assignment: &str) -> Result<File, String> {
    let (key, value) = assignment
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .ok_or_else(|| format!("`{assignment}` is no `key=value`, as in `train.steps=100` or `seeds=1,2`"))?;
    let mut table = Table::try_from(file).map_err(|error| error.to_string())?;
    if is_setting(key) {
        // The trainer's own check of key and value, with its own words.
        Settings::default().with(assignment)?;
        let before = Table::try_from(Settings::default()).ok().and_then(|table| at(&table, key).cloned());
        for size in table.get_mut("size").and_then(Value::as_table_mut).into_iter().flat_map(|sizes| sizes.iter_mut()) {
            if let Some(own) = size.1.as_table_mut() {
                remove(own, key);
            }
        }
        put(&mut table, &format!("settings.{key}"), parsed(value, before.as_ref()));
    } else if LISTS.contains(&key) {
        put(&mut table, key, Value::Array(list(value)));
    } else if SINGLE.contains(&key) || key.starts_with("glue.") || key.starts_with("data.") {
        let before = at(&table, key).cloned();
        put(&mut table, key, parsed(value, before.as_ref()));
    } else {
        return Err(not_there(key));
    }
    let text = toml::to_string(&table).map_err(|error| error.to_string())?;
    let wrong = |error: toml::de::Error| format!("`{key}` cannot be `{value}`: {}", error.message());
    let file: File = toml::from_str(&text).map_err(wrong)?;
    file.check()?;
    Ok(file)
}

/// Whether the trainer has a setting of this name.
fn is_setting(key: &str) -> bool {
    settings_keys().iter().any(|known| known == key)
}

fn settings_keys() -> Vec<String> {
    known_keys(&Table::try_from(Settings::default()).unwrap_or_default(), "")
}

fn not_there(key: &str) -> String {
    let mut settings = settings_keys();
    settings.retain(|known| DECIDED.iter().all(|(decided, _)| known != decided));
    let grid = LISTS.iter().chain(&SINGLE).copied();
    let alike = settings.iter().map(String::as_str).find(|known| known.rsplit('.').next() == Some(key));
    if KEYS.contains(&key) {
        return format!("`{key}` cannot be replaced here; write a file of your own, `--print` shows this one");
    }
    match alike {
        Some(alike) => format!("there is no key `{key}`; did you mean `{alike}`?"),
        None => unknown(key, &grid.chain(settings.iter().map(String::as_str)).collect::<Vec<_>>()),
    }
}

/// `a,b` or `["a", "b"]`.
fn list(text: &str) -> Vec<Value> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let value = |part: &str| match part.parse::<i64>() {
        Ok(number) => Value::Integer(number),
        Err(_) => Value::String(part.trim_matches(['"', '\'']).to_string()),
    };
    inner.split(',').map(str::trim).filter(|part| !part.is_empty()).map(value).collect()
}

fn at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let mut names = key.split('.');
    let first = table.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_string(), value);
        }
        Some((folder, rest)) => {
            let inner = table.entry(folder).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            if let Some(inner) = inner.as_table_mut() {
                put(inner, rest, value);
            }
        }
    }
}

fn remove(table: &mut Table, key: &str) {
    match key.split_once('.') {
        None => {
            table.remove(key);
        }
        Some((folder, rest)) => {
            if let Some(inner) = table.get_mut(folder).and_then(Value::as_table_mut) {
                remove(inner, rest);
            }
        }
    }
}
