# The C types of reader.py.
cimport cython
from kvformat.codecs._kernel.memory cimport BACKSLASH, Bytes, COLON, COMMA, DIGIT_0, DIGIT_1, DIGIT_9, Hashes, LEFT_BRACE, LEFT_BRACKET, LOWER_E, LOWER_F, LOWER_N, LOWER_T, LOWER_U, MINUS, PLUS, POINT, QUESTION_MARK, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, SPACE, UPPER_E, UPPER_I, UPPER_N, append, append_character, ascii_end, byte, part, same, special, token, utf8_blocks, word

cdef Py_ssize_t FAULT
cdef Py_ssize_t BAD
cdef Py_ssize_t NEEDS_PYTHON
cdef int MAX_DEPTH
cdef int MAX_DIGITS
cdef int MIN_CACHED
cdef long long HUGE_EXPONENT
cdef unsigned long long HIGHS
cdef unsigned long long LOWS
cdef unsigned long long FOUR_BYTES
cdef unsigned long long FIRST_OF_FOUR
cdef unsigned long long ALL
cdef unsigned long long NULL_TEXT
cdef unsigned long long TRUE_TEXT
cdef unsigned long long FALSE_TEXT
cdef const unsigned char[::1] HEX
cdef const unsigned char[::1] ESCAPES
cdef int EXPECTED_VALUE
cdef int EXPECTED_NAME
cdef int EXPECTED_COLON
cdef int EXPECTED_COMMA
cdef int OPEN_STRING
cdef int BAD_ESCAPE
cdef int BAD_HEX
cdef int TOO_DEEP
cdef int TOO_MANY_DIGITS
cdef int BAD_EXPONENT
cdef int CONSTANT
cdef int TOO_MANY_CELLS
cdef Py_ssize_t CELLS_PER_BYTE
cdef Py_ssize_t MOST_CELLS
cdef Py_ssize_t MOST_CELLS_OF_A_BATCH

@cython.locals(a=cython.int, b=cython.int, c=cython.int, d=cython.int)
cdef inline int four_hex_digits(unsigned long long characters) except -9 nogil


@cython.final
cdef class Reader:
    # the data
    cdef readonly const unsigned char[::1] data
    cdef readonly Py_ssize_t begin
    cdef readonly Py_ssize_t end
    # the last number
    cdef unsigned long long mantissa
    cdef long long exponent
    cdef bint negative
    cdef bint whole
    cdef int digit_count
    # state of the message
    cdef public int depth
    cdef int rereads
    cdef bint in_map  # inside of a map
    cdef bint repeats  # the map, or a map within it, may have a name twice
    cdef Py_ssize_t cells  # of the message so far
    cdef Py_ssize_t most_cells  # limit of the message
    cdef Py_ssize_t usual_cells
    cdef Py_ssize_t free_cells
    cdef Py_ssize_t cells_left  # for the rest of the batch
    cdef Py_ssize_t cached_at
    cdef Py_ssize_t cached_size
    cdef Py_ssize_t openings  # number of calls of `open`
    cdef public bint careful
    cdef public bint has_surrogates
    cdef readonly int code
    cdef readonly Py_ssize_t where
    cdef public Py_ssize_t bad_at
    cdef public object culprit
    cdef public object reason
    cdef public list steps
    cdef public object final
    cdef public object final_of
    # the settings
    cdef readonly bint streaming
    cdef readonly bint lenient
    cdef readonly bint fail_on_missing
    cdef readonly bint decimals
    cdef readonly bint raw_controls
    # buffers
    cdef unsigned char[::1] stack
    cdef Py_ssize_t[::1] bases
    cdef Hashes hashes

    cdef int open(self, const unsigned char[::1] data) except -1
    cdef int start_message(self, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef Py_ssize_t fail(self, Py_ssize_t at, int code) noexcept nogil
    cpdef int start_batch(self, Py_ssize_t cells) except -1
    cdef inline Py_ssize_t count_cells(self, Py_ssize_t at, Py_ssize_t cells) noexcept nogil
    cdef int charge_cells(self) except -1
    cdef Py_ssize_t reject(self, Py_ssize_t at, object culprit) except -1
    cdef inline Py_ssize_t literal(self, Py_ssize_t at, unsigned long long text, int size) noexcept nogil
    cdef Py_ssize_t fail_value(self, Py_ssize_t at) noexcept nogil
    cdef inline Py_ssize_t string(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t escaped_string(self, Py_ssize_t opening, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t string_into(self, Py_ssize_t at, Bytes out) except -1 nogil
    @cython.locals(code=cython.int, low=cython.int)
    cdef Py_ssize_t escapes_into(self, Py_ssize_t opening, Py_ssize_t at, Bytes out) except -1 nogil
    cdef Py_ssize_t fail_escape(self, Py_ssize_t opening, Py_ssize_t at) noexcept nogil
    cdef bint is_plain(self, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    cdef inline Py_ssize_t digits(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t number(self, Py_ssize_t at) noexcept nogil
    @cython.locals(power=cython.longlong, down=cython.bint)
    cdef Py_ssize_t power(self, Py_ssize_t start, Py_ssize_t at, Py_ssize_t fraction) noexcept nogil
    cdef inline Py_ssize_t colon(self, Py_ssize_t at) noexcept nogil
    cdef inline Py_ssize_t name(self, Py_ssize_t at) noexcept nogil
    cdef inline Py_ssize_t scalar(self, Py_ssize_t at) noexcept nogil
    @cython.locals(depth=cython.int, closing=cython.int)
    cdef Py_ssize_t skip(self, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t skip_cached(self, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t compact(self, Py_ssize_t at, Bytes out) except -1
    @cython.locals(depth=cython.int)
    cdef Py_ssize_t compact_tokens(self, Py_ssize_t at, Py_ssize_t stop, Bytes out) except -1
    cdef bint is_usual_fraction(self, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    @cython.locals(c=cython.int, second=cython.int)
    cdef Py_ssize_t utf8_end(self, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.locals(need=cython.int)
    cdef bint is_loose(self, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    cpdef object text(self, Py_ssize_t start, Py_ssize_t stop)
    cpdef object string_text(self, Py_ssize_t start, Py_ssize_t stop)
    cpdef Py_ssize_t first_token(self)
    @cython.locals(count=cython.Py_ssize_t)
    cpdef Py_ssize_t characters(self, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
