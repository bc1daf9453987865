# The C types of csv.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Binaries, Booleans, Column, Decimals, Doubles, EXACT_DOUBLE, HALF_WAY, Int64Column, LOW_BITS, POWERS, TENS, Texts, add_integer, add_null_integer, end_text
from kvformat.codecs._kernel.containers cimport Lists, Rows
from kvformat.codecs._kernel.csv_records cimport BLOCK, CsvTokenizer
from kvformat.codecs._kernel.memory cimport Bytes, DIGIT_0, DIGIT_9, MINUS, PLUS, POINT, SPACE, UPPER_I, UPPER_N, UPPER_Z, append, bits_of, byte, eight_digits, few_digits, is_character, matches, next_of_two, part, single, word
from kvformat.codecs._kernel.messages cimport TextBatch
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.time_forms cimport NO_MOMENT, TimeForms
from kvformat.codecs._kernel.times cimport MICROS_OF_A_DAY, NO_TIME, days_of, micros_of_day

cdef int BAD
cdef int FAULT
cdef Py_ssize_t MOST_BYTES
cdef unsigned long long ALL
cdef unsigned long long LOWER_CASE
cdef unsigned long long FOUR_BYTES
cdef unsigned long long TRUE_TEXT
cdef int NO_RECORD
cdef int NOT_TEXT
cdef int UNKNOWN_ENCODING
cdef int TOO_MANY_COLUMNS
cdef int NOT_ENOUGH_COLUMNS
cdef int LENGTH_MISMATCH
cdef int TOO_MUCH_TEXT

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


cdef inline bint is_plain(Cell cell, Reader r, Py_ssize_t start, Py_ssize_t size) noexcept nogil


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


cdef class DateCell(WordCell):
    pass


cdef class TimeCell(WordCell):
    cdef long long unit


cdef class TimestampCell(WordCell):
    cdef bint zoned


cdef class FormTimestampCell(WordCell):
    cdef TimeForms forms

    @cython.locals(moment=cython.longlong)
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1
    @cython.locals(moment=cython.longlong)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


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


cdef class CsvBatch(TextBatch):
    cdef Rows root
    cdef list cells  # list[Cell], filled by the caller of the constructor: the casts are unchecked
    cdef CsvTokenizer records
    cdef object words
    cdef bint lenient
    cdef bint ignore_trailing_unmappable
    cdef bint allow_trailing_comma
    cdef bint fail_on_missing_columns
    cdef Py_ssize_t[::1] numbers  # the messages of the records in `records`
    cdef bint at_once
    cdef list removed  # the messages whose rows were removed because of bad values
    cdef object bad

    @cython.final
    cdef Py_ssize_t find_record(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t read_others(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t end_record(self, Py_ssize_t at, bint loose) except -1
    cdef int reject(self) except -9
    @cython.final
    cdef int read_records(self) except -1
    cdef Py_ssize_t read_columns(self, Py_ssize_t first, Py_ssize_t stop) except -1
    cdef int add_value_error(self, Py_ssize_t message) except -1
