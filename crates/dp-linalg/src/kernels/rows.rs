//! Rows of a sum: where they lie and how far each can be read.

/// `count` rows that start `stride` elements apart, each readable for `width` elements.
///
/// A row's own numbers are its first `dim <= width` elements. What follows may be zeros or the
/// next row: kernels multiply it like the rest, and the results land in padding that nobody reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    data: &'a [T],
    stride: usize,
    count: usize,
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    /// # Panics
    /// When the last row is not readable for `width` elements.
    pub(crate) fn new(data: &'a [T], stride: usize, count: usize, width: usize) -> Self {
        let last = count.saturating_sub(1).checked_mul(stride);
        let end = last.and_then(|last| last.checked_add(width));
        assert!(count == 0 || end.is_some_and(|end| end <= data.len()));
        Self {
            data,
            stride,
            count,
            width,
        }
    }

    /// How many of `count` rows, packed `stride` apart in `len` elements, can be read for `width`.
    pub(crate) fn readable(len: usize, stride: usize, count: usize, width: usize) -> usize {
        match len.checked_sub(width) {
            Some(room) => count.min(room / stride + 1),
            None => 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Start of the first row; row r starts `r * stride` further and can be read for `width`.
    pub(super) fn as_ptr(&self) -> *const T {
        self.data.as_ptr()
    }
}

impl<T: Copy> RowSource<T> for Rows<'_, T> {
    type Starts = Spaced<T>;

    fn count(&self) -> usize {
        self.count
    }

    fn width(&self) -> usize {
        self.width
    }

    fn starts(&self) -> Spaced<T> {
        Spaced::new(self.data.as_ptr(), self.stride)
    }
}

/// Chosen rows of a table, read where they lie: what [`Rows`] of a copy would be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChosenRows<'a, T> {
    table: &'a [T],
    indices: &'a [u32],
    stride: usize,
    width: usize,
}

impl<'a, T> ChosenRows<'a, T> {
    /// Rows `indices` of a table whose rows are `stride` long, each readable for `width` elements;
    /// `None` where the table ends before that.
    pub(crate) fn new(
        table: &'a [T],
        indices: &'a [u32],
        stride: usize,
        width: usize,
    ) -> Option<Self> {
        let last = indices.iter().copied().max().unwrap_or(0) as usize;
        let end = last.checked_mul(stride)?.checked_add(width)?;
        (end <= table.len()).then_some(Self {
            table,
            indices,
            stride,
            width,
        })
    }
}

impl<'a, T: Copy> RowSource<T> for ChosenRows<'a, T> {
    type Starts = Listed<'a, T>;

    fn count(&self) -> usize {
        self.indices.len()
    }

    fn width(&self) -> usize {
        self.width
    }

    fn starts(&self) -> Listed<'a, T> {
        Listed {
            first: self.table.as_ptr(),
            indices: self.indices,
            stride: self.stride,
        }
    }
}

/// Rows that are known to be readable for `width` elements each.
pub(crate) trait RowSource<T>: Copy {
    /// Where its rows start.
    type Starts: RowStarts<T>;

    fn count(&self) -> usize;

    fn width(&self) -> usize;

    /// Row r below `count` starts at `start(r)` and can be read for `width`.
    fn starts(&self) -> Self::Starts;
}

/// The address of each row.
pub(crate) trait RowStarts<T>: Copy {
    /// # Safety
    /// There is a row `row`.
    unsafe fn start(self, row: usize) -> *const T;

    /// The addresses `columns` further.
    fn shifted(self, columns: usize) -> Self;
}

/// Rows at equal distances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spaced<T> {
    first: *const T,
    stride: usize,
}

impl<T> Spaced<T> {
    pub(super) fn new(first: *const T, stride: usize) -> Self {
        Self { first, stride }
    }
}

impl<T: Copy> RowStarts<T> for Spaced<T> {
    #[inline(always)]
    unsafe fn start(self, row: usize) -> *const T {
        self.first.wrapping_add(row * self.stride)
    }

    #[inline(always)]
    fn shifted(self, columns: usize) -> Self {
        Self::new(self.first.wrapping_add(columns), self.stride)
    }
}

/// Rows that a list of indices names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<'a, T> {
    first: *const T,
    indices: &'a [u32],
    stride: usize,
}

impl<T: Copy> RowStarts<T> for Listed<'_, T> {
    #[inline(always)]
    unsafe fn start(self, row: usize) -> *const T {
        // SAFETY: there is an index for each row.
        let index = unsafe { *self.indices.get_unchecked(row) };
        self.first.wrapping_add(index as usize * self.stride)
    }

    #[inline(always)]
    fn shifted(self, columns: usize) -> Self {
        Self {
            first: self.first.wrapping_add(columns),
            ..self
        }
    }
}
