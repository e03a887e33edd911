//! Arrays between this program and those it builds: a file of words of 32 bits, numbers as their bits, every array
//! after its length.

use std::path::Path;

/// Arrays to be written.
#[derive(Clone, Debug, Default)]
pub struct Words(pub Vec<u32>);

impl Words {
    pub fn number(&mut self, number: usize) {
        self.0.push(u32::try_from(number).expect("a small number"));
    }

    pub fn array(&mut self, values: impl IntoIterator<Item = f64>) {
        let values: Vec<u32> = values.into_iter().map(|x| (x as f32).to_bits()).collect();
        self.number(values.len());
        self.0.extend(values);
    }

    pub fn write(&self, path: &Path) {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(path, bytes).expect("a file to write");
    }
}

/// Arrays as they are read.
pub struct Reading {
    words: Vec<u32>,
    at: usize,
}

impl Reading {
    pub fn open(path: &Path) -> Reading {
        let bytes = std::fs::read(path).unwrap_or_default();
        let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Reading { words, at: 0 }
    }

    pub fn number(&mut self) -> Option<usize> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(*word as usize)
    }

    pub fn array(&mut self) -> Option<Vec<f64>> {
        let length = self.number()?;
        let words = self.words.get(self.at..self.at + length)?;
        self.at += length;
        Some(words.iter().map(|word| f64::from(f32::from_bits(*word))).collect())
    }

    /// Bytes as text, one word each.
    pub fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        let words = self.words.get(self.at..self.at + length)?;
        self.at += length;
        Some(words.iter().map(|word| char::from_u32(*word).unwrap_or('?')).collect())
    }
}

/// The other end, as source for the programs that are built.
pub const OTHER_END: &str = r#"
pub struct Reading { words: Vec<u32>, at: usize }
impl Reading {
    pub fn open(path: &str) -> Reading {
        let bytes = std::fs::read(path).expect("arrays");
        let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Reading { words, at: 0 }
    }
    pub fn number(&mut self) -> usize {
        self.at += 1;
        self.words[self.at - 1] as usize
    }
    pub fn array(&mut self) -> Vec<f32> {
        let length = self.number();
        self.at += length;
        self.words[self.at - length..self.at].iter().map(|word| f32::from_bits(*word)).collect()
    }
}
#[derive(Default)]
pub struct Words(Vec<u32>);
impl Words {
    pub fn number(&mut self, number: usize) {
        self.0.push(number as u32);
    }
    pub fn array(&mut self, values: &[f32]) {
        self.number(values.len());
        self.0.extend(values.iter().map(|x| x.to_bits()));
    }
    pub fn text(&mut self, text: &str) {
        self.number(text.chars().count());
        self.0.extend(text.chars().map(|c| c as u32));
    }
    pub fn write(&self, path: &str) {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(path, bytes).expect("a file to write");
    }
}
/// What a closure returns, or what it panicked with.
pub fn caught(run: impl FnOnce() -> Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
    })
}
pub fn put(words: &mut Words, result: Result<Vec<Vec<f32>>, String>) {
    match result {
        Ok(arrays) => {
            words.number(arrays.len() + 1);
            arrays.iter().for_each(|array| words.array(array));
        }
        Err(text) => {
            words.number(0);
            words.text(&text);
        }
    }
}
"#;
