//! Pages of a column, checked for what the decoder takes for granted.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// Pages in which none refers to a dictionary that did not come before it, and no dictionary says that it has more values
/// than bytes: the decoder makes room for all of them first, and a want of memory cannot be caught.
pub(super) struct CheckedPages {
    pages: Box<dyn PageReader>,
    has_dictionary: bool,
}

impl CheckedPages {
    pub(super) const fn of(pages: Box<dyn PageReader>) -> Self {
        Self {
            pages,
            has_dictionary: false,
        }
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage {
                buf, num_values, ..
            }) => {
                if *num_values as usize > buf.len() {
                    return Err(ParquetError::General("dictionary is too short".to_owned()));
                }
                self.has_dictionary = true;
            }
            Some(data) if !self.has_dictionary && needs_dictionary(data.encoding()) => {
                return Err(ParquetError::General("no dictionary".to_owned()));
            }
            _ => (),
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

#[allow(deprecated, reason = "what older writers call it")]
const fn needs_dictionary(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
    )
}
