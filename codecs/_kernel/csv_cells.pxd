# The C types of csv_cells.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Binaries, Booleans, Column, Decimals, Doubles, EXACT_DOUBLE, HALF_WAY, Int64Column, Integers, LOW_BITS, POWERS, Texts
from kvformat.codecs._kernel.containers cimport Lists, Rows
from kvformat.codecs._kernel.memory cimport DIGIT_0, DIGIT_9, MINUS, PLUS, POINT, SPACE, UPPER_I, UPPER_N, UPPER_Z, append, bits_of, byte, matches, next_of_two, part, single, word
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.times cimport MICROS_OF_A_DAY, NO_TIME, days_of, micros_of_day

cdef int BAD
cdef int FAULT
cdef Py_ssize_t MOST_BYTES
cdef unsigned long long ALL
cdef unsigned long long ONES
cdef unsigned long long LOWER_CASE
cdef unsigned long long FOUR_BYTES
cdef unsigned long long TRUE_TEXT

cdef str text_of(Reader r, Py_ssize_t start, Py_ssize_t stop)


@cython.final
cdef class Special:
    cdef int size
    cdef int first
    cdef unsigned long long repeated
    cdef unsigned long long word

    cdef inline bint is_at(self, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil


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

    @cython.final
    @cython.locals(size=cython.Py_ssize_t, result=cython.int)
    cdef int read(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int read_slow(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class PatternCell(Cell):
    cdef bint trims

    @cython.locals(first=cython.Py_ssize_t, last=cython.Py_ssize_t, c=cython.int)
    cdef int read_uncommon(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.locals(result=cython.int)
    cdef int read_trimmed(self, Reader r, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t first, Py_ssize_t last) except -1


cdef class IntegerCell(PatternCell):
    cdef Integers integers

    @cython.locals(at=cython.Py_ssize_t, negative=cython.bint, value=cython.ulonglong, c=cython.int)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class NumberCell(PatternCell):
    cdef unsigned long long mantissa
    cdef bint negative
    cdef Py_ssize_t digit_count

    @cython.final
    @cython.locals(first=cython.Py_ssize_t, point=cython.Py_ssize_t, mantissa=cython.ulonglong, c=cython.int)
    cdef inline Py_ssize_t parse(self, Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil


cdef class DoubleCell(NumberCell):
    cdef Doubles doubles

    @cython.locals(fraction=cython.Py_ssize_t, value=cython.double)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class DecimalCell(NumberCell):
    cdef Decimals decimals

    @cython.locals(fraction=cython.Py_ssize_t)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class BooleanCell(Cell):
    cdef Booleans booleans

    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class TextCell(Cell):
    cdef Texts texts

    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class BinaryCell(Cell):
    cdef Binaries binaries

    @cython.locals(size=cython.Py_ssize_t)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class DateCell(PatternCell):
    cdef Int64Column days

    @cython.locals(days=cython.longlong)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class TimeCell(PatternCell):
    cdef Int64Column times
    cdef long long unit

    @cython.locals(micros=cython.longlong)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class TimestampCell(PatternCell):
    cdef Int64Column times
    cdef bint zoned

    @cython.locals(end=cython.Py_ssize_t, days=cython.longlong, micros=cython.longlong)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class ContainerCell(Cell):
    cdef Special delimiter
    cdef bint trim

    @cython.final
    @cython.locals(repeated=cython.ulonglong)
    cdef Py_ssize_t element_end(self, Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.final
    cdef bint has_elements(self, Reader r, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end) noexcept nogil
    @cython.final
    cdef int read_element(self, Reader r, Cell cell, Py_ssize_t start, Py_ssize_t stop) except -1
    cdef int read_slow(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class ArrayCell(ContainerCell):
    cdef Lists lists
    cdef readonly Cell element

    @cython.locals(end=cython.Py_ssize_t, result=cython.int)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1


cdef class RowCell(ContainerCell):
    cdef Rows rows
    cdef list members  # list[Cell], filled by the constructor: the casts are unchecked
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t found
    cdef readonly Cell bad_member

    @cython.locals(end=cython.Py_ssize_t, result=cython.int, number=cython.Py_ssize_t, cell=Cell)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
    @cython.final
    cdef Py_ssize_t count_elements(self, Reader r, Py_ssize_t end, Py_ssize_t stop) except -1
