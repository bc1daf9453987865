# The C types of variant_texts.py.
cimport cython
from kvformat.codecs._kernel.columns cimport TENS
from kvformat.codecs._kernel.memory cimport BACKSLASH, Bytes, COLON, COMMA, DIGIT_0, LEFT_BRACE, LEFT_BRACKET, LOWER_U, MINUS, POINT, QUOTE, append, append_bytes, part, word

cdef int MAX_DEPTH
cdef int BINARY
cdef int DECIMAL4
cdef int DECIMAL8
cdef int FALSE_BYTE
cdef int INT1
cdef int INT8
cdef int LONG_STRING
cdef int MALFORMED_VARIANT
cdef Py_ssize_t MOST_OF_A_TEXT
cdef int NULL_BYTE
cdef int OBJECT
cdef int PRIMITIVE
cdef int SHORT_STRING
cdef int TOO_DEEP_VARIANT
cdef int TOO_LARGE_TEXT
cdef int TRUE_BYTE
cdef int VERSION
cdef const unsigned char[::1] SIZES
cdef const unsigned char[::1] ESCAPES
cdef const unsigned char[::1] DIGITS
cdef unsigned long long ALL
cdef long long NINE_DIGITS
cdef long long EIGHTEEN_DIGITS
cdef const unsigned char[::1] TRUE_WORD
cdef const unsigned char[::1] FALSE_WORD
cdef const unsigned char[::1] NULL_WORD


@cython.final
cdef class VariantTexts:
    cdef object uncommon
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] names
    cdef Bytes out
    cdef Py_ssize_t end
    cdef Py_ssize_t left
    cdef Py_ssize_t name_count
    cdef int name_width
    cdef Py_ssize_t name_offsets
    cdef Py_ssize_t name_texts
    cdef Py_ssize_t names_end
    cdef unsigned char[::1] is_object
    cdef Py_ssize_t[::1] index
    cdef Py_ssize_t[::1] counts
    cdef Py_ssize_t[::1] id_at
    cdef Py_ssize_t[::1] id_size
    cdef Py_ssize_t[::1] offset_at
    cdef Py_ssize_t[::1] offset_size
    cdef Py_ssize_t[::1] data_at

    @cython.locals(offsets=cython.longlong[::1], name_offsets=cython.longlong[::1], ends=cython.longlong[::1], written=cython.uchar[::1], i=cython.Py_ssize_t, count=cython.Py_ssize_t, begin=cython.Py_ssize_t, problem=cython.int)
    cpdef object write(self, tuple values, tuple metadata, const unsigned char[::1] valid)
    cdef inline Py_ssize_t unsigned_number(self, const unsigned char[::1] data, Py_ssize_t at, int size) noexcept nogil
    @cython.locals(head=cython.int, width=cython.int)
    cdef int open_metadata(self, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(head=cython.int, kind=cython.int, depth=cython.int, frame=cython.int, size=cython.int, problem=cython.int, i=cython.Py_ssize_t, most=cython.Py_ssize_t)
    cdef int put_value(self, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(is_object=cython.bint, count=cython.Py_ssize_t, id_size=cython.int, offset_size=cython.int)
    cdef int begin(self, Py_ssize_t at, int head, int frame) except -1
    @cython.locals(start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef int put_name(self, Py_ssize_t number) except -1
    cdef int put_string(self, Py_ssize_t at, Py_ssize_t size) except -1
    @cython.locals(c=cython.int, letter=cython.int, start=cython.Py_ssize_t)
    cdef int put_quoted(self, Bytes out, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t stop) except -1 nogil
    @cython.locals(kind=cython.int, size=cython.Py_ssize_t, value=cython.longlong, most=cython.longlong, scale=cython.int)
    cdef int put_primitive(self, Py_ssize_t at, int head) except -1
    @cython.locals(value=cython.ulonglong, shift=cython.int)
    cdef long long signed_number(self, Py_ssize_t at, int size) noexcept
    cdef inline long long shifted(self, long long value, int shift) noexcept
    @cython.locals(magnitude=cython.ulonglong, count=cython.int, out=Bytes)
    cdef int put_number(self, long long value, int scale) except -1
