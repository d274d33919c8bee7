//! What mints answer about notes, as NUT-07 and NUT-09 define it.

use serde_json::{Value, json};

/// The answer of `/v1/checkstate`, where `state` gives the state of a `Y` in hex.
pub fn states(request: &Value, state: impl Fn(&str) -> &'static str) -> Value {
    let ys = request["Ys"].as_array().into_iter().flatten();
    let state = |y: &Value| {
        let state = state(y.as_str().unwrap_or_default());
        json!({"Y": y, "state": state, "witness": null})
    };
    json!({ "states": ys.map(state).collect::<Value>() })
}

/// The answer of `/v1/restore`, where `sign` gives the signature on an output with this `B_` in hex, if there is one.
pub fn signatures(request: &Value, sign: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let outputs = request["outputs"].as_array().into_iter().flatten();
    let signed = outputs.filter_map(|output| {
        let message = output["B_"].as_str().unwrap_or_default();
        Some((output, sign(message, output)?))
    });
    let (outputs, signatures): (Vec<_>, Vec<_>) = signed.unzip();
    json!({"outputs": outputs, "signatures": signatures})
}
