# The C types of variants.py.
cimport cython
from kvformat.codecs._kernel.columns cimport EXACT_DOUBLE, POWERS, Slices
from kvformat.codecs._kernel.memory cimport Bytes, COMMA, DIGIT_0, DIGIT_9, LEFT_BRACE, LEFT_BRACKET, LOWER_F, LOWER_N, LOWER_T, MINUS, QUOTE, RIGHT_BRACE, append, append_bytes, append_integer, bits_of, byte, part, special, token
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.variant_keys cimport Keys

cdef Py_ssize_t BAD
cdef int EXPECTED_COMMA
cdef int EXPECTED_NAME
cdef int MAX_DEPTH
cdef int TOO_DEEP
cdef int TOO_LARGE
cdef int TRAILING
cdef Py_ssize_t MOST_BYTES
cdef unsigned long long NULL_TEXT
cdef unsigned long long TRUE_TEXT
cdef unsigned long long FALSE_TEXT
cdef int MOST_SHORT
cdef long long NINE_DIGITS
cdef long long LOW_WORD
cdef Py_ssize_t MOST_OF_A_VARIANT
cdef int VERSION
cdef int OBJECT
cdef int ARRAY
cdef int LARGE_OBJECT
cdef int LARGE_ARRAY
cdef int SHORT_STRING
cdef int LONG_STRING
cdef int NULL_BYTE
cdef int TRUE_BYTE
cdef int FALSE_BYTE
cdef int INT1
cdef int INT2
cdef int INT4
cdef int INT8
cdef int DOUBLE
cdef int DECIMAL4
cdef int DECIMAL8
cdef int DUPLICATE_KEY
cdef int TOO_LARGE_VARIANT


@cython.final
cdef class VariantWriter:
    cdef Keys keys
    cdef Bytes flat
    cdef Bytes heads
    cdef Bytes name
    cdef Bytes metadata
    cdef Py_ssize_t metadata_keys
    cdef Py_ssize_t[::1] places
    cdef Py_ssize_t containers
    cdef long long[::1] elements
    cdef long long[::1] sorted
    cdef Py_ssize_t count
    cdef unsigned char[::1] closings
    cdef Py_ssize_t[::1] starts
    cdef Py_ssize_t[::1] firsts
    cdef Py_ssize_t[::1] numbers
    cdef Py_ssize_t size
    cdef int problem
    cdef Py_ssize_t repeated

    cdef Py_ssize_t read(self, Reader r, Py_ssize_t at) except -1
    @cython.locals(depth=cython.int, closing=cython.int, c=cython.int)
    cdef Py_ssize_t parse(self, Reader r, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t refuse(self, int problem) noexcept nogil
    cdef inline int begin(self, int depth, int closing) except -1 nogil
    cdef int more_places(self) except -1 nogil
    cdef int more_elements(self) except -1 nogil
    @cython.locals(offset=cython.longlong, number=cython.Py_ssize_t, key=cython.longlong)
    cdef inline Py_ssize_t element(self, Reader r, Py_ssize_t at, int closing, int depth) except -1 nogil
    cdef inline Py_ssize_t scalar(self, Reader r, Py_ssize_t at, int c) except -1 nogil
    cdef inline Py_ssize_t string(self, Reader r, Py_ssize_t at) except -1 nogil
    cdef inline int string_head(self, Py_ssize_t size) except -1 nogil
    @cython.locals(value=cython.longlong, small=cython.bint, double=cython.double)
    cdef inline Py_ssize_t number(self, Reader r, Py_ssize_t at) except -1 nogil
    cdef inline Py_ssize_t put_number(self, long long value, int size, Py_ssize_t end) except -1 nogil
    @cython.locals(i=cython.Py_ssize_t, key=cython.longlong, last=cython.longlong, most=cython.longlong, is_object=cython.bint, large=cython.bint)
    cdef bint close(self, int depth) except -1 nogil
    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t, a=cython.Py_ssize_t, b=cython.Py_ssize_t, low=cython.Py_ssize_t, middle=cython.Py_ssize_t, high=cython.Py_ssize_t, width=cython.Py_ssize_t)
    cdef int sort(self, Py_ssize_t first) except -1 nogil
    @cython.locals(i=cython.Py_ssize_t, done=cython.Py_ssize_t)
    cdef int add_value(self, Bytes out) except -1
    @cython.locals(i=cython.Py_ssize_t, count=cython.Py_ssize_t, size=cython.Py_ssize_t, offset=cython.Py_ssize_t, keys=Keys, out=Bytes)
    cdef Py_ssize_t add_metadata(self, Py_ssize_t end) except -1
    @cython.locals(keys=Keys)
    cdef object repeated_key(self)


cdef inline int integer_size(long long value) noexcept nogil


cdef class Variants(Slices):
    cdef object refusal
    cdef VariantWriter writer
    cdef Bytes text
    cdef Bytes metadata
    cdef int[::1] metadata_offsets

    @cython.locals(problem=cython.int)
    cdef Py_ssize_t read_value(self, Reader r, Py_ssize_t at) except -1
    @cython.locals(i=cython.Py_ssize_t, at=cython.Py_ssize_t, count=cython.Py_ssize_t)
    cpdef object read_texts(self, Reader r, const long long[::1] offsets, const unsigned char[::1] data, const unsigned char[::1] valid, object error)
    @cython.final
    cdef inline int ended(self, bint valid) except -1
