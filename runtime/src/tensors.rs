//! Named tensors in a safetensors file: what is in it as numbers, or the name of the tensor that is wrong.

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use std::collections::BTreeMap;

/// An array and its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T = f32> {
    pub shape: Vec<usize>,
    pub data: Vec<T>,
}

/// The tensors of a file: numbers by name, and `lengths`, the only whole numbers there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors {
    pub numbers: BTreeMap<String, Tensor>,
    pub lengths: Option<Tensor<i64>>,
}

/// The name of the tensor of whole numbers.
pub const LENGTHS: &str = "lengths";

/// The tensors in the bytes of a file.
pub fn read(bytes: &[u8]) -> Result<Tensors, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format!("this is no safetensors file: {error}"))?;
    let mut tensors = Tensors::default();
    let mut views: Vec<(&str, TensorView)> = file.iter().collect();
    views.sort_by_key(|(name, _)| *name);
    for (name, view) in views {
        if name == LENGTHS {
            tensors.lengths = Some(values(name, &view, Dtype::I64, i64::from_le_bytes)?);
        } else {
            tensors.numbers.insert(name.to_string(), values(name, &view, Dtype::F32, f32::from_le_bytes)?);
        }
    }
    Ok(tensors)
}

/// One tensor of whole numbers in the bytes of a file.
pub fn read_whole_numbers(bytes: &[u8], name: &str) -> Result<Tensor<i64>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format!("this is no safetensors file: {error}"))?;
    let view = file.tensor(name).map_err(|_| format!("there is no tensor `{name}`"))?;
    values(name, &view, Dtype::I64, i64::from_le_bytes)
}

fn values<T, const BYTES: usize>(
    name: &str,
    view: &TensorView,
    wanted: Dtype,
    value: fn([u8; BYTES]) -> T,
) -> Result<Tensor<T>, String> {
    if view.dtype() != wanted {
        return Err(format!("`{name}` is {:?}; it has to be {wanted:?}", view.dtype()));
    }
    let (chunks, _) = view.data().as_chunks::<BYTES>();
    Ok(Tensor { shape: view.shape().to_vec(), data: chunks.iter().map(|bytes| value(*bytes)).collect() })
}

/// A file of tensors, as bytes.
pub fn write(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, String> {
    let bytes: Vec<Vec<u8>> =
        tensors.values().map(|tensor| tensor.data.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let views: Result<Vec<(&String, TensorView)>, _> = (tensors.iter().zip(&bytes))
        .map(|((name, tensor), bytes)| Ok((name, TensorView::new(Dtype::F32, tensor.shape.clone(), bytes)?)))
        .collect();
    views.and_then(|views| serialize(views, None)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let numbers = BTreeMap::from([
            ("a".to_string(), Tensor { shape: vec![2, 1], data: vec![1.5, -0.0] }),
            ("b".to_string(), Tensor { shape: vec![], data: vec![f32::MAX] }),
        ]);
        let bytes = write(&numbers).expect("bytes");
        assert_eq!(read(&bytes), Ok(Tensors { numbers, lengths: None }));
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert!(read(b"").is_err());
    }
}
