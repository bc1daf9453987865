# The C types of avro_wire.py.
cimport cython
from kvformat.codecs._kernel.memory cimport byte, word

cdef Py_ssize_t FAULT
cdef int CUT_NUMBER
cdef int CUT_VALUE
cdef int INT_BYTES
cdef int LONG_BYTES
cdef int LONG_INT
cdef int LONG_LONG
cdef unsigned long long LOW_32_BITS
cdef int MAX_EMPTY_ITEMS
cdef int MAX_LEVELS
cdef int NEGATIVE_SIZE
cdef int NESTED_TOO_DEEPLY
cdef int NO_BRANCH
cdef int TOO_MANY_ADDED_BYTES
cdef int TOO_MANY_EMPTY_ITEMS
cdef int TOO_MANY_ITEMS
cdef Py_ssize_t MAX_ADDED
cdef Py_ssize_t ADDED_PER_BYTE
cdef Py_ssize_t MAX_ADDED_OF_A_BATCH
cdef unsigned long long ALL
cdef unsigned long long LARGEST

# The forms of values. They are C constants.
cdef enum:
    ANY_FORM = 0
    INT_FORM = 1
    LONG_FORM = 2
    BOOLEAN_FORM = 3
    DOUBLE_FORM = 4
    TEXT_FORM = 5
    SKIPPED_INT = 6
    SKIPPED_LONG = 7
    SKIPPED_TEXT = 8


@cython.final
cdef class AvroWire:
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t begin
    cdef readonly Py_ssize_t end
    cdef long long value
    cdef unsigned long long count
    cdef Py_ssize_t size
    # the fault
    cdef readonly int code
    cdef readonly unsigned long long first  # numbers that the error text has; negative numbers modulo 2**64
    cdef readonly unsigned long long second
    cdef readonly int error
    cdef readonly bytes path
    cdef readonly bytes text
    cdef readonly object culprit
    # state of the message
    cdef int depth
    cdef Py_ssize_t empty  # items without bytes
    cdef readonly Py_ssize_t added
    cdef readonly Py_ssize_t most_added
    cdef Py_ssize_t added_left  # for the rest of the batch

    cdef int open(self, const unsigned char[::1] data) except -1
    cdef int start(self, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef int charge(self) except -1
    cdef Py_ssize_t fail(self, int code, unsigned long long first, unsigned long long second) noexcept nogil
    @cython.locals(c=cython.ulonglong)
    cdef Py_ssize_t read_slow(self, Py_ssize_t at, int most) noexcept nogil
    cdef Py_ssize_t fail_size(self, Py_ssize_t at) noexcept nogil
    cdef inline Py_ssize_t skip_bytes(self, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    cdef inline Py_ssize_t read_branch(self, Py_ssize_t at, int branches) noexcept nogil
    cdef inline Py_ssize_t read_count(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t check_count(self, Py_ssize_t at, Py_ssize_t least_size, Py_ssize_t added) noexcept nogil


# Reads a number of at most `most` bytes into `AvroWire.value`. Drops bits beyond 32 or 64. Up to eight bytes are read as
# a word: `last` is the highest bit of the last byte, and the masks select bits of each byte, of pairs, and of fours.
cdef inline Py_ssize_t read_number(AvroWire w, Py_ssize_t at, int most) noexcept nogil:
    cdef unsigned long long raw, last
    cdef Py_ssize_t size
    cdef int c
    if at < w.end:
        c = byte(w.data, at, w.end)
        if c < 128:
            w.value = (c >> 1) ^ -(c & 1)
            return at + 1
    raw = word(w.data, at)
    last = ~raw & 0x8080808080808080ULL
    last &= ~last + 1
    size = (((last - 1) & 0x0101010101010101ULL) * 0x0101010101010101ULL) >> 56
    if last == 0 or size > most or at + 8 > w.end:
        return w.read_slow(at, most)
    raw &= (last ^ (last - 1)) & 0x7F7F7F7F7F7F7F7FULL
    raw = (raw & 0x007F007F007F007FULL) | (raw & 0x7F007F007F007F00ULL) >> 1
    raw = (raw & 0x00003FFF00003FFFULL) | (raw & 0x3FFF00003FFF0000ULL) >> 2
    raw = (raw & 0x000000000FFFFFFFULL) | (raw & 0x0FFFFFFF00000000ULL) >> 4
    if most == 5:
        raw &= 0xFFFFFFFFULL
    w.value = (raw >> 1) ^ -(raw & 1)
    return at + size


# Reads a long into `AvroWire.value`.
cdef inline Py_ssize_t read_long(AvroWire w, Py_ssize_t at) noexcept nogil:
    return read_number(w, at, 10)


# Reads an int into `AvroWire.value`.
cdef inline Py_ssize_t read_int(AvroWire w, Py_ssize_t at) noexcept nogil:
    return read_number(w, at, 5)


# Reads the size of a text or of bytes into `AvroWire.size`. Returns the offset of the first byte.
cdef inline Py_ssize_t read_size(AvroWire w, Py_ssize_t at) noexcept nogil:
    at = read_long(w, at)
    if at < 0:
        return at
    if w.value < 0 or w.value > w.end - at:
        return w.fail_size(at)
    w.size = w.value
    return at


cdef class AvroReader:
    cdef public int null_branch
    cdef int form

    cdef Py_ssize_t read_value(self, AvroWire w, Py_ssize_t at) except -1
    cdef Py_ssize_t read_values(self, AvroWire w, Py_ssize_t at, Py_ssize_t count) except -1
    cdef int add_null(self) except -1


@cython.locals(c=cython.int)
cdef inline Py_ssize_t skip_field(AvroReader reader, AvroWire w, Py_ssize_t at) except -1


cdef class NumberSkipper(AvroReader):
    cdef bint is_int


cdef class BytesSkipper(AvroReader):
    pass


cdef class FixedSkipper(AvroReader):
    cdef Py_ssize_t size


cdef class RecordSkipper(AvroReader):
    cdef list fields  # list[AvroReader], set by `fill`: the casts are unchecked
    cdef Py_ssize_t count


cdef class UnionSkipper(AvroReader):
    cdef list branches  # list[AvroReader], set by `fill`: the casts are unchecked
    cdef int count


cdef class BlocksSkipper(AvroReader):
    cdef Py_ssize_t least_size
    cdef bint keyed
    cdef AvroReader item

    cdef Py_ssize_t skip_items(self, AvroWire w, Py_ssize_t at, Py_ssize_t count) except -1
