//! Panics as values: where they happened and what they said, and nothing on the terminal.

use crate::failure::Failure;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static LAST: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
    static IS_CATCHING: RefCell<bool> = const { RefCell::new(false) };
}

static HOOK: Once = Once::new();

/// What `f` returns, or the panic it ended in.
pub fn catching<T>(stage: &str, f: impl FnOnce() -> T) -> Result<T, Failure> {
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CATCHING.with(|x| *x.borrow()) {
                return usual(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()));
            let place = info.location().map(|l| format!("{}:{}", short(l.file()), l.line())).unwrap_or_default();
            LAST.with(|last| *last.borrow_mut() = Some((text.unwrap_or_default(), place)));
        }));
    });
    let before = IS_CATCHING.with(|x| x.replace(true));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    IS_CATCHING.with(|x| *x.borrow_mut() = before);
    result.map_err(|_| {
        let (message, location) = LAST.with(|last| last.borrow_mut().take()).unwrap_or_default();
        Failure::Panic { stage: stage.to_string(), message, location }
    })
}

/// The end of a path that says where in which crate it is.
fn short(path: &str) -> &str {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.find("compiler/src").or_else(|| path.find("index.crates.io")).map_or(path, |at| &path[at..])
}
