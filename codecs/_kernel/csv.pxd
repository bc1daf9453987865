# The C types of csv.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Booleans, Column, Decimals, Doubles, EXACT_DOUBLE, HALF_WAY, Int64Column, LOW_BITS, POWERS, TENS, add_integer, add_null_integer
from kvformat.codecs._kernel.text_columns cimport Binaries, Texts, end_text
from kvformat.codecs._kernel.containers cimport Lists, Rows
from kvformat.codecs._kernel.csv_records cimport CsvTokenizer
from kvformat.codecs._kernel.memory cimport Bytes, DIGIT_0, DIGIT_9, MINUS, PLUS, POINT, SPACE, UPPER_I, UPPER_N, append, bits_of, byte, eight_digits, few_digits, is_character, matches, next_of_two, part, single, word
from kvformat.codecs._kernel.reader cimport Reader

cdef int BAD
cdef int FAULT
cdef Py_ssize_t MOST_BYTES
cdef unsigned long long ALL
cdef unsigned long long LOWER_CASE
cdef unsigned long long FOUR_BYTES
cdef unsigned long long TRUE_TEXT

cdef unsigned long long HIGHS
cdef unsigned long long ONES
cdef unsigned long long POINTS
cdef unsigned long long ZEROS

@cython.locals(fraction=cython.longlong)
cdef inline long long short_number(unsigned long long characters, int size) noexcept nogil
cdef str text_of(Reader r, Py_ssize_t start, Py_ssize_t stop)


cdef class Cell:
    cdef readonly str path
    cdef readonly Column column
    cdef readonly object convert
    cdef readonly object type
    cdef bint lenient
    cdef bint empty_is_null
    cdef Py_ssize_t null_size
    cdef const unsigned char[::1] null_literal
    cdef readonly str bad_text
    cdef int result

    @cython.final
    cdef inline int read(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1
    @cython.final
    cdef int read_any(self, CsvTokenizer records, Py_ssize_t i) except -1
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int read_slow(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


# Returns whether the text at an offset is not empty, not the null literal, and has no encoded surrogates. The offset is
# negative if the text is not in the data of `r`.
cdef inline bint is_plain(Cell cell, Reader r, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    return start >= 0 and size > 0 and size != cell.null_size and not r.has_surrogates


cdef class WordCell(Cell):
    cdef bint trims
    cdef Int64Column words

    cdef int read_uncommon(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int read_trimmed(self, Reader r, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t first, Py_ssize_t last) except -1


cdef class IntegerCell(WordCell):
    cdef long long most

    @cython.locals(negative=cython.bint)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class NumberCell(WordCell):
    cdef unsigned long long mantissa
    cdef bint negative
    cdef Py_ssize_t digit_count

    @cython.final
    cdef inline Py_ssize_t parse(self, Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil


cdef class DoubleCell(NumberCell):
    cdef bint short


cdef class DecimalCell(NumberCell):
    cdef Decimals decimals

    @cython.locals(shift=cython.int)
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1


cdef class BooleanCell(WordCell):
    @cython.locals(is_true=cython.bint)
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1
    @cython.locals(is_true=cython.bint)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class TextCell(Cell):
    cdef Texts texts

    @cython.locals(is_null=cython.bint)
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1


cdef class BinaryCell(Cell):
    cdef Binaries binaries


cdef class ContainerCell(Cell):
    cdef unsigned long long delimiter
    cdef int delimiter_size
    cdef unsigned long long delimiters
    cdef bint trim

    @cython.final
    cdef Py_ssize_t element_end(self, Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.final
    cdef bint has_elements(self, Reader r, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
    @cython.final
    cdef int read_element(self, Reader r, Cell cell, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class ArrayCell(ContainerCell):
    cdef Lists lists
    cdef readonly Cell element


cdef class RowCell(ContainerCell):
    cdef Rows rows
    cdef list members  # list[Cell], filled by the constructor: the casts are unchecked
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t found
    cdef readonly Cell bad_member

    @cython.final
    cdef Py_ssize_t count_elements(self, Reader r, Py_ssize_t end, Py_ssize_t stop) except -1
