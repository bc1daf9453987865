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
cdef unsigned long long ONES
cdef unsigned long long LAST_OF_NUMBER
cdef unsigned long long SEVENS
cdef unsigned long long EVEN_SEVENS
cdef unsigned long long ODD_SEVENS
cdef unsigned long long EVEN_FOURTEENS
cdef unsigned long long ODD_FOURTEENS
cdef unsigned long long LOW_TWENTY_EIGHT
cdef unsigned long long HIGH_TWENTY_EIGHT


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
    @cython.locals(over=cython.Py_ssize_t)
    cdef int charge(self) except -1
    cdef Py_ssize_t fail(self, int code, unsigned long long first, unsigned long long second) noexcept nogil
    @cython.locals(found=cython.ulonglong, last=cython.ulonglong, size=cython.Py_ssize_t)
    cdef Py_ssize_t read_wide(self, Py_ssize_t at, int most) noexcept nogil
    @cython.locals(found=cython.ulonglong, c=cython.ulonglong, i=cython.int)
    cdef Py_ssize_t read_slow(self, Py_ssize_t at, int most) noexcept nogil
    cdef Py_ssize_t fail_size(self, Py_ssize_t at) noexcept nogil
    cdef inline Py_ssize_t skip_bytes(self, Py_ssize_t at, Py_ssize_t size) noexcept nogil
    cdef inline Py_ssize_t read_branch(self, Py_ssize_t at, int branches) noexcept nogil
    cdef inline Py_ssize_t read_count(self, Py_ssize_t at) noexcept nogil
    @cython.locals(left=cython.Py_ssize_t)
    cdef Py_ssize_t check_count(self, Py_ssize_t at, Py_ssize_t least_size, Py_ssize_t added) noexcept nogil


# Reads a long into `AvroWire.value`.
cdef inline Py_ssize_t read_long(AvroWire w, Py_ssize_t at) noexcept nogil:
    cdef int c
    if at < w.end:
        c = byte(w.data, at, w.end)
        if c < 128:
            w.value = (c >> 1) ^ -(c & 1)
            return at + 1
    return w.read_wide(at, 10)


# Reads an int into `AvroWire.value`.
cdef inline Py_ssize_t read_int(AvroWire w, Py_ssize_t at) noexcept nogil:
    cdef int c
    if at < w.end:
        c = byte(w.data, at, w.end)
        if c < 128:
            w.value = (c >> 1) ^ -(c & 1)
            return at + 1
    return w.read_wide(at, 5)


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

    cdef Py_ssize_t read_value(self, AvroWire w, Py_ssize_t at) except -1
    cdef Py_ssize_t read_values(self, AvroWire w, Py_ssize_t at, Py_ssize_t count) except -1
    cdef int add_null(self) except -1


# Reads a value, or the union with null in which it is. The result is that of `AvroReader.read_value`.
cdef inline Py_ssize_t read_nullable(AvroReader reader, AvroWire w, Py_ssize_t at) except -1:
    cdef int c
    if reader.null_branch >= 0:
        c = byte(w.data, at, w.end)
        if at < w.end and (c == 0 or c == 2):
            at += 1
        else:
            at = w.read_branch(at, 2)
            if at < 0:
                return at
            c = <int>w.value * 2
        if c == reader.null_branch:
            reader.add_null()
            return at
    return reader.read_value(w, at)


cdef class NumberSkipper(AvroReader):
    cdef bint is_int


cdef class BytesSkipper(AvroReader):
    pass


cdef class FixedSkipper(AvroReader):
    cdef Py_ssize_t size


cdef class RecordSkipper(AvroReader):
    cdef list fields  # list[AvroReader], set by `fill`: the casts are unchecked
    cdef Py_ssize_t count

    @cython.locals(i=cython.Py_ssize_t)
    cdef Py_ssize_t read_value(self, AvroWire w, Py_ssize_t at) except -1


cdef class UnionSkipper(AvroReader):
    cdef list branches  # list[AvroReader], set by `fill`: the casts are unchecked
    cdef int count



cdef class BlocksSkipper(AvroReader):
    cdef Py_ssize_t least_size
    cdef bint keyed
    cdef AvroReader item

    cdef Py_ssize_t skip_items(self, AvroWire w, Py_ssize_t at, Py_ssize_t count) except -1
