# The C types of columns.py.
cimport cython
from kvformat.codecs._kernel.memory cimport BACKSLASH, COMMA, DIGIT_0, DIGIT_1, DIGIT_9, LEFT_BRACE, LEFT_BRACKET, LOWER_F, LOWER_N, LOWER_T, MINUS, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, UPPER_I, UPPER_N, bits_of, byte, single, word
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.tree cimport Tree

cdef Py_ssize_t BAD
cdef int TOO_LARGE
cdef unsigned long long NULL_TEXT
cdef unsigned long long TRUE_TEXT
cdef unsigned long long FALSE_TEXT
cdef unsigned long long EXACT_DOUBLE
cdef unsigned long long LOW_BITS
cdef unsigned long long HALF_WAY
cdef unsigned long long FIVE_BYTES
cdef unsigned long long SIX_BYTES
cdef unsigned long long QUOTED_TRUE
cdef unsigned long long QUOTED_FALSE
cdef unsigned long long LARGEST
cdef unsigned long long MOST_BYTES
cdef const unsigned long long[::1] TENS
cdef const double[::1] POWERS


cdef class Column:
    cdef readonly object type
    cdef readonly object kind
    cdef readonly object convert
    cdef Tree nodes
    cdef readonly object name
    cdef bint is_text
    cdef public bint other_forms
    cdef readonly Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef Py_ssize_t nulls
    cdef Py_ssize_t spare
    cdef public Py_ssize_t cells
    cdef unsigned char[::1] valid

    cpdef int start(self, Py_ssize_t capacity) except -1
    cdef int grow(self, Py_ssize_t capacity) except -1
    @cython.final
    cdef inline int add_validity(self, bint valid) except -1
    @cython.final
    cdef int end_value(self, bint valid) except -1
    cdef int null(self) except -1
    cdef bint repeat(self) except -1
    cdef int truncate(self, Py_ssize_t length) except -1
    cdef Py_ssize_t read_value(self, Reader r, Py_ssize_t at) except -1
    cdef Py_ssize_t read_uncommon(self, Reader r, Py_ssize_t at) except -1
    cdef Py_ssize_t read_slow(self, Reader r, Py_ssize_t at) except -1
    cdef Py_ssize_t read_slow_text(self, Reader r, Py_ssize_t at, int first) except -1
    cdef int put(self, object value) except -1
    @cython.final
    cdef int put_or_null(self, object value) except -1
    cdef Py_ssize_t weight(self) noexcept


cdef class Int64Column(Column):
    cdef long long[::1] values
    cdef object stored

    @cython.final
    cdef inline Py_ssize_t add_value(self, long long value, Py_ssize_t end) except -1


cdef class Booleans(Int64Column):
    pass


cdef class Integers(Int64Column):
    cdef unsigned long long most
    cdef long long factor
    cdef bint cuts

    @cython.locals(size=cython.longlong)
    cdef Py_ssize_t read_value(self, Reader r, Py_ssize_t at) except -1


cdef class Doubles(Int64Column):
    cdef bint short

    @cython.locals(quoted=cython.bint)
    cdef Py_ssize_t read_value(self, Reader r, Py_ssize_t at) except -1


cdef class Decimals(Column):
    cdef unsigned long long[::1] values
    cdef int precision
    cdef int scale

    @cython.final
    cdef bint add_number(self, unsigned long long mantissa, long long exponent, bint negative) except -1
    @cython.final
    cdef inline int add_decimal(self, unsigned long long low, unsigned long long high) except -1


cdef class Slices(Column):
    cdef int[::1] offsets


# Appends a value that ends at the offset `end`. Returns `end`.
cdef inline Py_ssize_t add_integer(Int64Column words, long long value, Py_ssize_t end) except -1:
    cdef Py_ssize_t at = words.length
    if at == words.capacity:
        words.grow(words.capacity * 2)
    words.values[at] = value
    words.valid[at] = True
    words.length = at + 1
    return end


# Appends a null. Returns `end`.
cdef inline Py_ssize_t add_null_integer(Int64Column words, Py_ssize_t end) except -1:
    end = add_integer(words, 0, end)
    words.valid[words.length - 1] = False
    words.nulls += 1
    return end
