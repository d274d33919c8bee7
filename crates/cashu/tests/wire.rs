//! The public interface: keyset IDs, errors of responses, errors of the output.

use std::io;

use nutfilter::Params;
use nutfilter_cashu::{FilterResponse, KeysetId, NoteKind, ResponseErrorKind, endpoint_path};

#[test]
fn keyset_ids_order_hash_and_print_as_they_compare() {
    use std::collections::{BTreeSet, HashSet};
    let ids: Vec<KeysetId> = [
        "00FFd48b8f5ecf80",
        "00ffd48b8f5ecf80",
        "I2yN+iRYf/zT",
        "I2yN-iRYf_zT",
        "i2yN+iRYf/zT",
        "00ffd48b8f5ecf81",
    ]
    .iter()
    .map(|text| text.parse().unwrap())
    .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4);
    assert!(ids[0] < ids[2]);
    assert_eq!(ids[0].to_string(), "00FFd48b8f5ecf80");
    assert_eq!(format!("{:?}", ids[3]), "KeysetId(I2yN-iRYf_zT)");
    assert_eq!(NoteKind::Spent.as_str(), "spent");
    assert_eq!(NoteKind::Issued.as_str(), "issued");
    assert!(endpoint_path(&ids[0], NoteKind::Issued).contains("/issued/"));
}

#[test]
fn invalid_responses_have_a_class_and_a_message() {
    let rejected = |json: &str| FilterResponse::from_json(json.as_bytes()).unwrap_err();
    let list = rejected("[1]");
    assert_eq!(list.kind(), ResponseErrorKind::Json);
    assert_eq!(list.decode_error(), None);
    assert!(list.to_string().ends_with("not an object"), "{list}");
    let escaped = rejected(r#"{"n":1,"content":"AA\b/\u0041","timestamp":0}"#);
    assert_eq!(escaped.kind(), ResponseErrorKind::Base64);
    let long = rejected(r#"{"n":1,"content":"AAAAAAAAAAAAAAAA","timestamp":0}"#);
    assert_eq!(long.kind(), ResponseErrorKind::Filter);
    let fault = long.decode_error().expect("an error of the filter");
    assert!(long.to_string().ends_with(&fault.to_string()), "{long}");
    let source = std::error::Error::source(&long).expect("a source");
    assert_eq!(source.to_string(), fault.to_string());
}

#[test]
fn output_errors_are_returned_at_every_position() {
    let content = vec![7_u8; 100_000];
    let write =
        |output: &mut [u8]| FilterResponse::write(output, 1, Params::default(), &content, 0);
    let mut text = Vec::new();
    FilterResponse::write(&mut text, 1, Params::default(), &content, 0).unwrap();
    // The head; a piece; the tail.
    for room in [0, 20, 65_000, 66_000, 133_380, text.len() - 1] {
        let error = write(&mut text[..room]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero, "room for {room}");
    }
    write(&mut text[..]).unwrap();
}

#[test]
fn written_text_is_that_of_to_json_at_every_length() {
    let params = Params::default();
    for len in (0..7).chain(49_149..49_156).chain([98_304, 98_305]) {
        let content: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
        let mut text = Vec::new();
        FilterResponse::write(&mut text, 77, params, &content, 5).unwrap();
        let base64 = base64_simd::STANDARD.encode_to_string(&content);
        let expected =
            format!(r#"{{"n":77,"p":19,"m":784931,"content":"{base64}","timestamp":5}}"#);
        assert_eq!(text, expected.into_bytes(), "{len}");
    }
}
