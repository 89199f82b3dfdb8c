//! Bytes changed one at a time and files truncated anywhere: the result is every row, or a typed
//! error that reveals only the position.

use std::error::Error as _;
use std::ops::Range;
use std::panic;
use std::sync::Once;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};

use super::super::CheckedPages;
use super::super::{RowGroups, rows_agree};
use super::super::{contained, panic_is_contained};
use super::generated::{Cells, Generated, floats, texts, wholes};
use crate::{Error, Result};

const N_ROWS: usize = 4;

/// Ratings in two row groups, so that one of them follows the damage in the other.
fn ratings(rating: Cells) -> Generated {
    Generated {
        columns: vec![
            (
                "optional binary user (STRING)",
                texts(&["ann", "bob", "bob", "cy"]),
            ),
            ("required int64 item", wholes([1, 2, 3, 1])),
            ("optional double rating", rating),
        ],
        rows_per_group: 3,
        compression: Compression::UNCOMPRESSED,
    }
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by(String::new())
}

/// Panics of other tests are printed as usual.
fn without_contained_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |of| {
            if !panic_is_contained() {
                before(of);
            }
        }));
    });
}

/// Number of rows in a file, after reading every value.
fn n_rows(bytes: Bytes) -> Result<usize> {
    let mut groups = RowGroups::of(bytes, "t".to_owned())?;
    let leaves = groups.columns.iter().enumerate();
    let wanted = leaves.filter_map(|(at, column)| column.leaf.map(|_| at));
    let wanted = wanted.collect();
    groups.read_only(wanted).unwrap();
    let mut fields = Vec::new();
    while groups.advance(&mut fields)? {}
    Ok(groups.number())
}

/// Whether a damaged file is rejected, with an error that is allowed: never one that depends on the
/// content of its records.
fn is_refused(bytes: Bytes) -> bool {
    let error = match n_rows(bytes) {
        Ok(found) => {
            assert_eq!(found, N_ROWS, "rows vanished or came");
            return false;
        }
        Err(error) => error,
    };
    assert!(matches!(error, Error::Parquet { .. }), "{error}");
    let said = error.source().unwrap().to_string();
    let known = [
        "no footer, or a damaged or encrypted one",
        "its numbers of rows do not agree",
        "row group 1 cannot be decoded",
        "row group 2 cannot be decoded",
    ];
    let is_codec =
        said.starts_with("compressed by ") && said.ends_with(": snappy, gzip and zstd are read");
    assert!(is_codec || known.contains(&&*said), "{said}");
    true
}

/// Changes each of these bytes by each mask; returns the number of rejected files.
fn damage(whole: &[u8], bytes: Range<usize>, masks: &[u8]) -> usize {
    let mut n_refused = 0;
    let mut damaged = whole.to_vec();
    for at in bytes {
        for mask in masks {
            damaged[at] = whole[at] ^ mask;
            let file = Bytes::copy_from_slice(&damaged);
            n_refused += usize::from(is_refused(file));
        }
        damaged[at] = whole[at];
    }
    n_refused
}

/// The start of the footer: its length is stored before the last four bytes.
fn footer(whole: &[u8]) -> usize {
    let (length, _) = whole[whole.len() - 8..].split_first_chunk().unwrap();
    whole.len() - 8 - u32::from_le_bytes(*length) as usize
}

/// Damages the bytes before the footer.
fn damage_pages(whole: &[u8], masks: &[u8]) {
    assert_eq!(n_rows(Bytes::copy_from_slice(whole)).unwrap(), N_ROWS);
    let end = footer(whole);
    let n_refused = damage(whole, 0..end, masks);
    // values themselves may be anything; the data that locate them may not
    assert!(n_refused > masks.len() * end / 4, "{n_refused} of {end}");
}

/// Each bit, and all of them.
const FEW: [u8; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 255];

/// Every other state of a byte.
fn all_masks() -> Vec<u8> {
    (1..=u8::MAX).collect()
}

fn rated() -> Cells {
    floats([1.0, 2.5, 3.0, 4.0])
}

fn damaged_pages(masks: &[u8]) {
    without_contained_panics();
    let plain = |of: WriterPropertiesBuilder| of.set_dictionary_enabled(false);
    let encoded = |encoding| {
        plain(properties())
            .set_column_encoding("user".into(), encoding)
            .set_column_encoding("item".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding("rating".into(), Encoding::BYTE_STREAM_SPLIT)
    };
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for of in [
            properties(),
            plain(properties()),
            encoded(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            encoded(Encoding::DELTA_BYTE_ARRAY),
        ] {
            let of = of.set_writer_version(version);
            damage_pages(&ratings(rated()).bytes(of), masks);
        }
    }
    let nulls = Cells::Float(vec![Some(1.0), None, Some(3.0), None]);
    damage_pages(&ratings(nulls).bytes(properties()), masks);
}

#[test]
fn damaged_pages_are_never_a_panic() {
    damaged_pages(&FEW);
}

#[test]
#[ignore = "long form: a minute"]
fn long_damaged_pages_are_never_a_panic() {
    damaged_pages(&all_masks());
}

#[test]
fn damaged_compression_is_never_a_panic() {
    without_contained_panics();
    for compression in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let of = properties().set_compression(compression);
        damage_pages(&ratings(rated()).bytes(of), &FEW);
    }
}

fn damaged_footer(masks: &[u8]) {
    without_contained_panics();
    let with_statistics = properties().set_statistics_enabled(EnabledStatistics::Chunk);
    for of in [properties(), with_statistics] {
        let whole = ratings(rated()).bytes(of);
        for end in 0..whole.len() {
            assert!(is_refused(Bytes::copy_from_slice(&whole[..end])), "{end}");
        }
        let footer = footer(&whole)..whole.len();
        let n_bytes = footer.len();
        assert!(damage(&whole, footer, masks) > masks.len() * n_bytes / 4);
    }
}

#[test]
fn a_damaged_footer_is_never_a_panic() {
    damaged_footer(&FEW);
}

#[test]
#[ignore = "long form: half a minute"]
fn long_a_damaged_footer_is_never_a_panic() {
    damaged_footer(&all_masks());
}

#[test]
fn numbers_of_rows_agree_and_none_is_negative() {
    let whole = Bytes::from(ratings(rated()).bytes(properties()));
    let metadata = RowGroups::of(whole, "t".to_owned()).unwrap();
    let metadata = metadata.file.metadata();
    let with_rows = |of_groups: [i64; 2]| {
        let groups = metadata.row_groups().iter().zip(of_groups);
        let groups = groups.map(|(group, n)| {
            let group = group.clone().into_builder().set_num_rows(n);
            group.build().unwrap()
        });
        let changed = metadata.clone().into_builder();
        rows_agree(&changed.set_row_groups(groups.collect()).build())
    };
    assert!(with_rows([3, 1]) && with_rows([4, 0]));
    for of_groups in [[2, 1], [3, 2], [-1, 5], [5, -1], [i64::MAX, i64::MAX]] {
        assert!(!with_rows(of_groups), "{of_groups:?}");
    }
}

#[test]
fn columns_end_with_their_row_group() {
    let nulls = Cells::Float(vec![Some(1.0), Some(2.5), None, None]);
    for rating in [rated(), nulls] {
        let whole = Bytes::from(ratings(rating).bytes(properties()));
        // the user's text, the item's whole numbers, the rating's
        for column in 0..3 {
            let mut groups = RowGroups::of(whole.clone(), "t".to_owned()).unwrap();
            groups.read_only(vec![column]).unwrap();
            let mut fields = Vec::new();
            assert!(groups.advance(&mut fields).unwrap());
            // as if the footer had declared one row less
            groups.left_in_group -= 1;
            assert!(groups.advance(&mut fields).unwrap());
            let error = groups.advance(&mut fields).err().unwrap();
            let said = error.source().unwrap().to_string();
            assert_eq!(said, "row group 1 cannot be decoded", "column {column}");
        }
    }
}

/// A dictionary that declares `u32::MAX` values.
struct Endless;

impl Iterator for Endless {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Endless {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        Ok(Some(Page::DictionaryPage {
            buf: Bytes::from_static(b"\x03\0\0\0ann"),
            num_values: u32::MAX,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }))
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        Ok(())
    }
}

#[test]
fn no_room_is_made_for_a_dictionary_longer_than_its_page() {
    let found = CheckedPages::of(Box::new(Endless)).get_next_page();
    assert!(found.is_err());
}

#[test]
fn a_panic_is_contained_while_it_lasts() {
    without_contained_panics();
    assert_eq!(contained(panic_is_contained), Some(true));
    assert!(contained(|| panic!("at byte 14")).is_none());
    assert!(!panic_is_contained());
}
