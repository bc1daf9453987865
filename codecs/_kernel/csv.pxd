# The C types of csv.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Rows
from kvformat.codecs._kernel.csv_cells cimport Cell, Special
from kvformat.codecs._kernel.memory cimport Bytes, DIGIT_0, LOWER_N, LOWER_R, LOWER_T, NEWLINE, NUMBER_SIGN, RETURN, SPACE, TAB, append, byte, column_end, next_of_two
from kvformat.codecs._kernel.messages cimport TextBatch
from kvformat.codecs._kernel.reader cimport Reader

cdef int BAD
cdef int FAULT
cdef int NO_RECORD
cdef int NOT_TEXT
cdef int UNKNOWN_ENCODING
cdef int OPEN_QUOTE
cdef int AFTER_QUOTE
cdef int OPEN_ESCAPE
cdef int TOO_MANY_COLUMNS
cdef int NOT_ENOUGH_COLUMNS
cdef int LENGTH_MISMATCH
cdef int TOO_MUCH_TEXT


@cython.final
cdef class RecordReader:
    cdef readonly Reader reader
    cdef readonly Reader unescaped
    cdef Bytes buffer
    cdef Special delimiter
    cdef Special quote
    cdef Special escape
    cdef Special inner_escape
    cdef bint comments
    cdef bint trim
    cdef Py_ssize_t start
    cdef Py_ssize_t stop
    cdef bint has_more
    cdef bint is_unescaped

    @cython.locals(c=cython.int, r=Reader)
    cdef Py_ssize_t record_start(self, Py_ssize_t at) except -1
    @cython.locals(c=cython.int)
    cdef Py_ssize_t read_column(self, Py_ssize_t at) except -1 nogil
    @cython.locals(c=cython.int)
    cdef Py_ssize_t skip_blanks(self, Py_ssize_t at) noexcept nogil
    cdef int trim_end(self) except -1 nogil
    @cython.locals(end=cython.Py_ssize_t)
    cdef inline Py_ssize_t end_column(self, Py_ssize_t at) noexcept nogil
    @cython.locals(end=cython.Py_ssize_t, span=cython.Py_ssize_t, c=cython.int)
    cdef Py_ssize_t read_unquoted(self, Py_ssize_t at) except -1 nogil
    @cython.locals(end=cython.Py_ssize_t, at=cython.Py_ssize_t, span=cython.Py_ssize_t, size=cython.Py_ssize_t, c=cython.int)
    cdef Py_ssize_t read_quoted(self, Py_ssize_t opening) except -1 nogil
    cdef int keep(self, Py_ssize_t start, Py_ssize_t stop) except -1 nogil
    @cython.locals(after=cython.Py_ssize_t, c=cython.int)
    cdef Py_ssize_t unescape(self, Py_ssize_t at, Py_ssize_t size) except -1 nogil
    cdef int end_text(self, Py_ssize_t span, Py_ssize_t stop) except -1 nogil
    cdef int open_unescaped(self) except -1
    @cython.locals(i=cython.Py_ssize_t, c=cython.int)
    cdef bint is_blank(self) except -1


cdef class CsvBatch(TextBatch):
    cdef Rows root
    cdef list cells  # list[Cell], filled by the caller of the constructor: the casts are unchecked
    cdef RecordReader records
    cdef object words
    cdef bint lenient
    cdef bint ignore_trailing_unmappable
    cdef bint allow_trailing_comma
    cdef bint fail_on_missing_columns
    cdef Py_ssize_t found
    cdef object bad

    cdef object recode(self, object message)
    @cython.locals(r=Reader, first=cython.int, second=cython.int)
    cdef bint is_usual(self, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef int read_recoded(self, object message) except -9
    cdef int reject_encoding(self) except -9
    @cython.locals(r=Reader, found=cython.Py_ssize_t)
    cdef int read_message(self, Py_ssize_t begin, Py_ssize_t end, bint loose) except -9
    @cython.locals(r=Reader, records=RecordReader, count=cython.Py_ssize_t, result=cython.Py_ssize_t, cell=Cell)
    cdef Py_ssize_t read_record(self, Py_ssize_t at, bint loose) except -1
    @cython.locals(records=RecordReader)
    cdef int read_unescaped(self, Cell cell) except -1
    @cython.locals(r=Reader, records=RecordReader)
    cdef Py_ssize_t read_others(self, Py_ssize_t at, Py_ssize_t result, bint loose) except -1
    @cython.locals(r=Reader, count=cython.Py_ssize_t, number=cython.Py_ssize_t)
    cdef Py_ssize_t end_record(self, Py_ssize_t at, Py_ssize_t result, bint loose) except -1
    @cython.locals(r=Reader)
    cdef int reject(self, Py_ssize_t result, Py_ssize_t columns) except -9
    cdef int undo(self, Py_ssize_t rows) except -1
    cdef int read_empty(self, Py_ssize_t at) except -9
