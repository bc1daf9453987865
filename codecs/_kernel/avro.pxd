# The C types of avro.py.
cimport cython
from kvformat.codecs._kernel.avro_columns cimport Choices
from kvformat.codecs._kernel.avro_wire cimport ANY_FORM, AvroReader, AvroWire, BOOLEAN_FORM, DOUBLE_FORM, INT_FORM, LONG_FORM, SKIPPED_INT, TEXT_FORM, read_int, read_long, read_size
from kvformat.codecs._kernel.columns cimport Column, Decimals, Int64Column, add_integer, add_null_integer
from kvformat.codecs._kernel.text_columns cimport Texts, add_null_text, end_text
from kvformat.codecs._kernel.containers cimport Lists, Rows
from kvformat.codecs._kernel.memory cimport Bytes, append, append_bytes, bits_of, bits_of_single, byte, nearest_single, part, single_of_bits, word
from kvformat.codecs._kernel.messages cimport Messages
from kvformat.codecs._kernel.protobuf_columns cimport Pairs

cdef Py_ssize_t FAULT
cdef int COLUMN_TOO_LARGE
cdef int CUT_VALUE
cdef int KNOWN_TEXT
cdef unsigned long long LOW_32_BITS
cdef int NO_DATUM
cdef int NO_SYMBOL
cdef int NUMBER_OUT_OF_RANGE
cdef Py_ssize_t MOST_BYTES
cdef unsigned long long ALL
cdef unsigned long long LARGEST
cdef int BOOLEAN
cdef int SINGLE
cdef int DOUBLE
cdef int SINGLE_AS_DOUBLE
cdef int PLAIN
cdef int AS_SINGLE
cdef int AS_DOUBLE


@cython.locals(c=cython.int)
cdef inline Py_ssize_t read_field(AvroReader reader, AvroWire w, Py_ssize_t at) except -1
cdef inline Py_ssize_t add_text(Texts column, AvroWire w, Py_ssize_t at, Py_ssize_t size) except -1


cdef class ColumnReader(AvroReader):
    cdef readonly Column column


cdef class WordReader(ColumnReader):
    cdef Int64Column words


cdef class NullReader(ColumnReader):
    pass


cdef class DefaultReader(ColumnReader):
    cdef object value


cdef class FailReader(AvroReader):
    cdef int error
    cdef bytes text


cdef class IntegerReader(WordReader):
    cdef int how
    cdef readonly str kind
    cdef bint is_int
    cdef readonly long long times
    cdef readonly long long divisor
    cdef long long least
    cdef long long most

    cdef Py_ssize_t convert(self, AvroWire w, Py_ssize_t at) except -1


cdef class FixedWidthReader(WordReader):
    cdef int how
    cdef Py_ssize_t width


cdef class ByteStringReader(ColumnReader):
    cdef Texts text


cdef class FixedReader(ByteStringReader):
    cdef Py_ssize_t size


cdef class EnumReader(ColumnReader):
    cdef Texts text
    cdef Py_ssize_t count
    cdef const unsigned char[::1] texts
    cdef const int[::1] starts
    cdef list unknown

    @cython.locals(index=cython.Py_ssize_t, start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef Py_ssize_t read_value(self, AvroWire w, Py_ssize_t at) except -1


cdef class DecimalReader(ColumnReader):
    cdef Py_ssize_t size
    cdef object convert
    cdef object describe
    cdef bint is_short
    cdef Decimals decimals
    cdef long long most
    cdef long long times
    cdef long long divisor

    cdef Py_ssize_t read_any(self, AvroWire w, Py_ssize_t at, Py_ssize_t size) except -1


cdef class RecordReader(ColumnReader):
    cdef Rows rows
    cdef list readers  # list[AvroReader], filled by the constructor: the casts are unchecked
    cdef list paths
    cdef Py_ssize_t count


cdef class ArrayReader(ColumnReader):
    cdef Lists lists
    cdef AvroReader item
    cdef bytes path
    cdef Py_ssize_t least_size
    cdef Py_ssize_t added

    cdef Py_ssize_t read_items(self, AvroWire w, Py_ssize_t at, Py_ssize_t count) except -1
    cdef int end(self) except -1


cdef class MapReader(ArrayReader):
    cdef Pairs pairs
    cdef ByteStringReader key


cdef class UnionReader(AvroReader):
    cdef list branches  # list[AvroReader], filled by the constructor: the casts are unchecked
    cdef int count


cdef class ChoiceReader(AvroReader):
    cdef Choices choices
    cdef Py_ssize_t number
    cdef AvroReader value


cdef class AvroBatch(Messages):
    cdef readonly Column root
    cdef list texts
    cdef object describe
    cdef readonly AvroWire wire
    cdef list readers  # list[AvroReader], filled by `add_reader`: the casts are unchecked

    cpdef Py_ssize_t add_reader(self, AvroReader reader) except -1
    @cython.locals(begin=cython.Py_ssize_t, end=cython.Py_ssize_t, offsets="const int[::1]", valid="const unsigned char[::1]", has_nulls=cython.bint, shift=cython.Py_ssize_t, number=cython.Py_ssize_t)
    cpdef int run(self, object messages, const long long[::1] numbers, Py_ssize_t start, bint with_nulls) except -1
    @cython.locals(known=tuple, words=list)
    cdef int add_fault(self) except -9
