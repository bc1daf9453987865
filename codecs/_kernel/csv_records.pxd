# The C types of csv_records.py.
cimport cython
from kvformat.codecs._kernel.memory cimport Bytes, DIGIT_0, LOWER_N, LOWER_R, LOWER_T, NEWLINE, NUMBER_SIGN, RETURN, SPACE, TAB, append, byte, column_end, is_character, next_of_two
from kvformat.codecs._kernel.reader cimport Reader

cdef int OPEN_QUOTE
cdef int AFTER_QUOTE
cdef int OPEN_ESCAPE
cdef Py_ssize_t KEPT
cdef Py_ssize_t BLOCK


@cython.final
cdef class CsvTokenizer:
    cdef readonly Reader reader
    cdef readonly Reader unescaped
    cdef Bytes buffer
    # the special characters as words, and their sizes
    cdef unsigned long long delimiter
    cdef unsigned long long quote
    cdef unsigned long long escape
    cdef unsigned long long outer_escape
    cdef int delimiter_size
    cdef int quote_size
    cdef int escape_size
    # their first bytes, once and eight times
    cdef int delimiter_byte
    cdef int quote_byte
    cdef unsigned long long delimiters
    cdef unsigned long long quotes
    cdef unsigned long long escapes
    cdef unsigned long long outer_escapes
    cdef bint has_usual
    cdef bint comments
    cdef bint trim
    # the texts of the records
    cdef Py_ssize_t[::1] starts
    cdef Py_ssize_t[::1] stops
    cdef Py_ssize_t count
    cdef Py_ssize_t record
    cdef Py_ssize_t found
    # the column
    cdef Py_ssize_t start
    cdef Py_ssize_t stop
    cdef Py_ssize_t unescaped_start
    cdef bint has_more
    cdef bint is_unescaped

    cdef Py_ssize_t record_start(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t read_usual(self, Py_ssize_t at) except -1 nogil
    cdef int add(self) except -1 nogil
    cdef int add_missing(self) except -1 nogil
    cdef Py_ssize_t read_column(self, Py_ssize_t at) except -1 nogil
    cdef inline Py_ssize_t skip_blanks(self, Py_ssize_t at) noexcept nogil
    cdef inline int trim_end(self) except -1 nogil
    cdef inline Py_ssize_t end_column(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t skip_line_break(self, Py_ssize_t at) noexcept nogil
    cdef Py_ssize_t read_unquoted(self, Py_ssize_t at) except -1 nogil
    @cython.locals(size=cython.Py_ssize_t)
    cdef Py_ssize_t read_quoted(self, Py_ssize_t opening) except -1 nogil
    cdef inline int keep(self, Py_ssize_t start, Py_ssize_t stop) except -1 nogil
    cdef Py_ssize_t unescape(self, Py_ssize_t at) except -1 nogil
    cdef inline int end_text(self, Py_ssize_t span, Py_ssize_t stop) except -1 nogil
    cdef int open_unescaped(self) except -1
    cdef int start_block(self) except -1
    cdef int release(self) except -1
    cdef bint is_blank(self) except -1
