# The C types of look.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Names
from kvformat.codecs._kernel.memory cimport BACKSLASH, COMMA, DIGIT_0, DIGIT_9, LEFT_BRACE, LEFT_BRACKET, LOWER_E, LOWER_F, LOWER_N, LOWER_T, MINUS, POINT, QUOTE, RIGHT_BRACE, SPACE, UPPER_E, UPPER_Z, byte, token
from kvformat.codecs._kernel.messages cimport TextBatch
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.times cimport FIRST_DAY, days_of, micros_of_day

cdef int EXPECTED_COMMA
cdef unsigned long long FALSE_TEXT
cdef int MAX_DEPTH
cdef unsigned long long NULL_TEXT
cdef unsigned long long TRUE_TEXT
cdef Py_ssize_t CLOSER
cdef long long ANY
cdef long long BOOLEAN
cdef long long WHOLE
cdef long long DOUBLE
cdef long long DECIMAL
cdef long long FLOAT
cdef long long NUMBER_TEXT
cdef long long DATE
cdef long long LOCAL
cdef long long ZONED
cdef long long WITH_SPACE
cdef long long WITH_LETTER
cdef long long SHORT
cdef long long TRUTH_TEXT
cdef long long LATIN
cdef long long CLOCK
cdef long long ROW
cdef long long ARRAY
cdef long long MAP
cdef long long NESTED
cdef long long NOTED
cdef Py_ssize_t STRIDE
cdef long long AS_WRITTEN
cdef long long TRIMMED
cdef long long GROUPED
cdef long long AT_LEAST_ONE
cdef int MOST_FIXED
cdef int UPPER_T
cdef long long TIMES
cdef int FLOAT_DIGITS
cdef int FLOAT_SCALE
cdef int EXACT_DIGITS
cdef int USUAL_DIGITS
cdef Py_ssize_t MOST


@cython.final
cdef class LookTable:
    cdef Names names
    cdef Py_ssize_t[::1] rules
    cdef list nested  # list[LookTable | None]
    cdef const unsigned char[::1] key
    cdef Py_ssize_t key_size
    cdef const unsigned char[::1] declared
    cdef Py_ssize_t declared_size
    cdef bint is_strict
    cdef const unsigned char[::1] name
    cdef Py_ssize_t name_size
    cdef public int number

    cpdef object set_name(self, object name)


cdef class LookBatch(TextBatch):
    cdef object closer
    cdef int[::1] answers
    cdef public list tables  # list[LookTable | None]: the elements are checked
    cdef public const int[::1] topics

    @cython.locals(place=cython.Py_ssize_t)
    cpdef object look(self, object messages, object closer)
    cdef int look_closer(self) except -9
    @cython.locals(r=Reader, table=LookTable)
    cdef Py_ssize_t table_of(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader)
    cdef bint is_end(self, Py_ssize_t at) except -1
    @cython.locals(r=Reader, names=Names, before=cython.int, number=cython.int)
    cdef Py_ssize_t row(self, LookTable table, Py_ssize_t at) except -9
    @cython.locals(r=Reader, place=cython.Py_ssize_t, flags=cython.longlong, c=cython.int, end=cython.Py_ssize_t)
    cdef Py_ssize_t value(self, LookTable table, int number, Py_ssize_t at) except -9
    @cython.locals(r=Reader, flags=cython.longlong, inner=LookTable, c=cython.int, closing=cython.int)
    cdef Py_ssize_t nested_value(self, LookTable table, int number, Py_ssize_t at) except -9
    @cython.locals(r=Reader, flags=cython.longlong, start=cython.Py_ssize_t, c=cython.int, whole=cython.Py_ssize_t, fraction=cython.Py_ssize_t)
    cdef Py_ssize_t usual_number(self, LookTable table, Py_ssize_t place, Py_ssize_t at) except -9
    @cython.locals(r=Reader, flags=cython.longlong)
    cdef bint is_number_of(self, LookTable table, Py_ssize_t place, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(r=Reader, flags=cython.longlong, c=cython.int, end=cython.Py_ssize_t)
    cdef Py_ssize_t text(self, LookTable table, Py_ssize_t place, Py_ssize_t at) except -9
    @cython.locals(r=Reader, c=cython.int)
    cdef Py_ssize_t latin(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, forms=cython.longlong, present=cython.longlong, c=cython.int)
    cdef bint has_number_forms(self, LookTable table, Py_ssize_t place, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(r=Reader, digits=cython.Py_ssize_t, zeros=cython.Py_ssize_t, present=cython.longlong)
    cdef bint has_forms(self, long long forms, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(r=Reader, flags=cython.longlong, c=cython.int, clock=cython.Py_ssize_t)
    cdef Py_ssize_t time(self, LookTable table, Py_ssize_t place, Py_ssize_t at) except -9
    @cython.locals(r=Reader)
    cdef Py_ssize_t day(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, start=cython.Py_ssize_t)
    cdef Py_ssize_t clock(self, Py_ssize_t at, Py_ssize_t most) except -9
