# The C types of protobuf.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column, Int64Column
from kvformat.codecs._kernel.text_columns cimport Texts, end_text
from kvformat.codecs._kernel.containers cimport Lists, Rows
from kvformat.codecs._kernel.memory cimport Bytes, append, append_bytes, byte, part, word
from kvformat.codecs._kernel.messages cimport Messages
from kvformat.codecs._kernel.protobuf_columns cimport Pairs
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t FAULT
cdef int TRUNCATED
cdef int LONG_VARINT
cdef int NEGATIVE_SIZE
cdef int ZERO_TAG
cdef int WRONG_WIRE_TYPE
cdef int STRAY_GROUP_END
cdef int NESTED_TOO_DEEPLY
cdef int INVALID_UTF8
cdef int TOO_MUCH_TEXT
cdef int TOO_MANY_CELLS
cdef Py_ssize_t CELLS_PER_BYTE
cdef Py_ssize_t BYTES_OF_A_CELL
cdef int NULL_MESSAGE
cdef int VARINT
cdef int FIXED64
cdef int SIZED
cdef int GROUP_START
cdef int GROUP_END
cdef int FIXED32
cdef int SIGNED32
cdef int SIGNED64
cdef int ZIGZAG32
cdef int BOOL
cdef int BITS32
cdef int BITS32_SIGNED
cdef int BITS64
cdef int MAX_LEVELS
cdef unsigned long long LOW_32_BITS
cdef unsigned long long SIGN
cdef unsigned long long LARGEST
cdef unsigned long long ALL
cdef Py_ssize_t MOST_BYTES


@cython.final
cdef class Wire:
    cdef const unsigned char[::1] data
    cdef Reader texts
    cdef unsigned long long value
    cdef long long integer
    cdef int number
    cdef int kind
    cdef Py_ssize_t size
    cdef Py_ssize_t begin
    cdef Py_ssize_t where
    cdef int code
    cdef int depth
    cdef bint is_unknown  # the last field is to be ignored
    cdef bint is_doubtful  # a required field may be missing
    cdef list steps

    cdef int open(self, const unsigned char[::1] data) except -1
    cdef int start(self, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef Py_ssize_t count_cells(self, Py_ssize_t at, Py_ssize_t cells) noexcept nogil
    cdef Py_ssize_t fail(self, Py_ssize_t at, int code) noexcept nogil
    cdef inline Py_ssize_t read_varint(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(c=cython.ulonglong, raw=cython.ulonglong, i=cython.int)
    cdef Py_ssize_t read_long_varint(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef inline Py_ssize_t read_size(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef inline Py_ssize_t read_tag(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef inline Py_ssize_t skip_fixed(self, Py_ssize_t at, Py_ssize_t end, int size) noexcept nogil
    cdef inline Py_ssize_t read_number(self, int how, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef inline long long as_signed(self, unsigned long long number) noexcept nogil
    cdef Py_ssize_t skip(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    cdef Py_ssize_t skip_group(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil


cdef class Oneof


cdef class FieldReader:
    cdef readonly object name
    cdef readonly int wire
    cdef readonly Column column
    cdef public unsigned long long bit
    cdef public Oneof oneof
    cdef bint has_column
    cdef bint touched
    cdef bint is_list
    cdef bint has_value
    cdef bint has_default

    cdef Py_ssize_t read_value(self, Wire w, Py_ssize_t at, Py_ssize_t end) except -1
    cdef Py_ssize_t read_packed(self, Wire w, Py_ssize_t at, Py_ssize_t end) except -1
    cdef int close(self, Wire w) except -1
    cdef int discard(self) except -1


@cython.final
cdef class Oneof:
    cdef FieldReader last

    cdef int select(self, FieldReader field) except -1


cdef class NumberReader(FieldReader):
    cdef Int64Column words
    cdef int how
    cdef Py_ssize_t most
    cdef long long default
    cdef public bint is_closed
    cdef const long long[::1] known
    cdef long long value

    cdef bint is_known(self, long long number) except -1 nogil


cdef class TextReader(FieldReader):
    cdef Texts text
    cdef bint checked
    cdef object repair
    cdef bytes default
    cdef Py_ssize_t start
    cdef Py_ssize_t stop
    cdef bint is_broken


@cython.final
cdef class MessageReader:
    cdef list fields  # list[FieldReader], set by `fill`: the casts are unchecked
    cdef list closing  # list[FieldReader] too
    cdef int[::1] touched  # indexes of the touched fields
    cdef Py_ssize_t touches
    cdef unsigned long long required
    cdef const int[::1] table
    cdef dict sparse

    cdef inline Py_ssize_t find(self, int number) except -9
    cdef Py_ssize_t read_fields(self, Wire w, Py_ssize_t at, Py_ssize_t end, int group) except -1
    cdef int close(self, Wire w) except -1
    cdef int discard(self) except -1


cdef class SubmessageReader(FieldReader):
    cdef Rows rows
    cdef MessageReader message
    cdef int group


cdef class RepeatedReader(FieldReader):
    cdef Lists lists
    cdef FieldReader element
    cdef Py_ssize_t counted


cdef class EntriesReader(FieldReader):
    cdef Pairs pairs
    cdef MessageReader entry
    cdef NumberReader number
    cdef Py_ssize_t counted


cdef class ProtobufBatch(Messages):
    cdef Rows root
    cdef MessageReader message
    cdef object describe
    cdef object find_missing
    cdef bint lenient
    cdef Wire wire

    @cython.locals(begin=cython.Py_ssize_t, end=cython.Py_ssize_t, offsets="const int[::1]", valid="const unsigned char[::1]", has_nulls=cython.bint, shift=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cpdef int run(self, object messages) except -1
    cdef bint read_message(self, Py_ssize_t begin, Py_ssize_t end) except -1
