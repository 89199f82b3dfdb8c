//! A JSON schema checked with the few keywords that ours uses.

use serde_json::Value;

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    }
}

/// Whether `value` is valid under `rule`; panics at a keyword that it does not know.
pub(super) fn valid(value: &Value, rule: &Value, root: &Value) -> bool {
    let number = value.as_f64().unwrap_or(f64::NAN);
    rule.as_object().unwrap().iter().all(|(keyword, with)| {
        let bound = with.as_f64().unwrap_or(f64::NAN);
        match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" => true,
            "$ref" => {
                let pointer = with.as_str().unwrap().trim_start_matches('#');
                valid(value, root.pointer(pointer).unwrap(), root)
            }
            "type" => match with {
                Value::String(name) => has_type(value, name),
                names => names
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|name| has_type(value, name.as_str().unwrap())),
            },
            "const" => value == with,
            "enum" => with.as_array().unwrap().contains(value),
            "oneOf" => {
                let rules = with.as_array().unwrap();
                rules.iter().filter(|r| valid(value, r, root)).count() == 1
            }
            "minimum" => value.is_null() || number >= bound,
            "maximum" => value.is_null() || number <= bound,
            "exclusiveMinimum" => number > bound,
            "exclusiveMaximum" => number < bound,
            "pattern" => {
                assert_eq!(with, "^[0-9a-f]{64}$");
                value.as_str().is_some_and(|text| {
                    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                })
            }
            "items" => value
                .as_array()
                .is_none_or(|all| all.iter().all(|one| valid(one, with, root))),
            "properties" => value.as_object().is_none_or(|object| {
                let rules = with.as_object().unwrap();
                rules
                    .iter()
                    .all(|(name, r)| object.get(name).is_none_or(|v| valid(v, r, root)))
            }),
            "required" => value.as_object().is_none_or(|object| {
                let names = with.as_array().unwrap();
                names
                    .iter()
                    .all(|n| object.contains_key(n.as_str().unwrap()))
            }),
            "additionalProperties" => {
                assert_eq!(with, false);
                let known = rule["properties"].as_object().unwrap();
                value
                    .as_object()
                    .is_none_or(|object| object.keys().all(|key| known.contains_key(key)))
            }
            other => panic!("keyword {other}"),
        }
    })
}
