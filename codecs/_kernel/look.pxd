# The C types of look.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Names
from kvformat.codecs._kernel.memory cimport BACKSLASH, Bytes, COMMA, DIGIT_0, DIGIT_9, LEFT_BRACE, LEFT_BRACKET, LOWER_E, LOWER_F, LOWER_N, LOWER_T, MINUS, POINT, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, SPACE, UPPER_E, UPPER_Z, append, byte, matches, part, special, token, word
from kvformat.codecs._kernel.messages cimport TextBatch
from kvformat.codecs._kernel.previous_value cimport NEVER_ALIKE, PreviousValueCache, WORTH_COMPARING
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
cdef Py_ssize_t STRIDE
cdef int FIRST
cdef int SECOND
cdef int OPERATION
cdef int KEY
cdef int DECLARED
cdef int STATEMENT
cdef int NAMES
cdef int UPPER_T
cdef long long TIMES
cdef int FLOAT_DIGITS
cdef int FLOAT_SCALE
cdef int EXACT_DIGITS
cdef int USUAL_DIGITS
cdef unsigned long long ALL
cdef Py_ssize_t MOST
cdef int DOUBTFUL
cdef int MOST_PARTS
cdef int MOST_MOVED


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
    cdef object recode(self, object message)
    cdef int reject_encoding(self) except -9
    cdef int read_empty(self, Py_ssize_t at) except -9
    cdef int undo(self, Py_ssize_t rows) except -1
    cdef int look_closer(self) except -9
    cdef int read_message(self, Py_ssize_t begin, Py_ssize_t end, bint loose) except -9
    @cython.locals(r=Reader, first=cython.int)
    cdef bint is_usual(self, Py_ssize_t begin, Py_ssize_t end) noexcept
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
    @cython.locals(r=Reader, flags=cython.longlong, c=cython.int)
    cdef Py_ssize_t time(self, LookTable table, Py_ssize_t place, Py_ssize_t at) except -9
    @cython.locals(r=Reader)
    cdef Py_ssize_t day(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, start=cython.Py_ssize_t)
    cdef Py_ssize_t clock(self, Py_ssize_t at, Py_ssize_t most) except -9


cdef class EnvelopeLookBatch(LookBatch):
    cdef Names members
    cdef int used  # the first numbers of `members`: those that are not skipped
    cdef Names parts
    cdef int part_count
    cdef Names outer
    cdef bint has_source
    cdef bint optional
    cdef bint in_arrays
    cdef bint wrapped
    cdef unsigned long long[::1] operations
    cdef int[::1] sizes
    cdef int operation_count
    cdef dict by_name
    cdef dict by_last_part
    cdef PreviousValueCache previous  # the object with the parts of the name
    cdef int[::1] scalars  # the places of the parts among its scalars, -1 for missing ones
    cdef Py_ssize_t distance  # from the last part of the last name to the end of its message
    cdef bint guessed
    cdef LookTable last
    cdef Bytes name
    cdef Py_ssize_t[::1] starts
    cdef Py_ssize_t[::1] stops
    # offsets in the current message, 0 for what it does not have
    cdef Py_ssize_t first_at
    cdef Py_ssize_t second_at
    cdef Py_ssize_t key_at
    cdef Py_ssize_t declared_at
    cdef bint misfits
    cdef bint skipped  # the rows: the table is not guessed
    cdef int doubt

    cpdef object set_table(self, LookTable table)
    @cython.locals(table=LookTable)
    cpdef object knows(self, bytes name, bytes key, bytes declaration)
    cpdef object spans(self, bytes message)
    cdef bytes last_part(self, LookTable table)
    @cython.locals(r=Reader, table=LookTable, before=LookTable, begin=cython.Py_ssize_t, end=cython.Py_ssize_t, place=cython.Py_ssize_t)
    cdef Py_ssize_t table_of(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader)
    cdef bint is_same(self, LookTable table) except -1
    @cython.locals(size=cython.Py_ssize_t)
    cdef bint has_name(self, LookTable table) except -1
    @cython.locals(r=Reader, number=cython.int, start=cython.Py_ssize_t, c=cython.int)
    cdef bint read_table_name(self) except -1
    @cython.locals(r=Reader, number=cython.int)
    cdef Py_ssize_t envelope_of(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, before=cython.int, has_payload=cython.bint, number=cython.int)
    cdef Py_ssize_t wrapper(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, table=LookTable)
    cdef Py_ssize_t skip_declared(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, members=Names, before=cython.int, seen=cython.int, number=cython.int)
    cdef Py_ssize_t envelope(self, Py_ssize_t at) except -9
    @cython.locals(r=Reader, table=LookTable, depth=cython.int, end=cython.Py_ssize_t)
    cdef Py_ssize_t member(self, int number, Py_ssize_t at) except -9
    @cython.locals(r=Reader, parts=Names, previous=PreviousValueCache, before=cython.int, begin=cython.Py_ssize_t, number=cython.int, place=cython.int, start=cython.Py_ssize_t)
    cdef Py_ssize_t source(self, Py_ssize_t at) except -9
    @cython.locals(previous=PreviousValueCache, number=cython.int, place=cython.int)
    cdef int note_source(self, Py_ssize_t begin, Py_ssize_t end) except -1
    @cython.locals(r=Reader, names=Names, number=cython.int, start=cython.Py_ssize_t, size=cython.Py_ssize_t, at=cython.Py_ssize_t, step=cython.int, table=LookTable)
    cdef int guess(self) except -1
    @cython.locals(r=Reader, found=cython.ulonglong, place=cython.int)
    cdef bint is_known_operation(self, Py_ssize_t at, Py_ssize_t size) except -1
    @cython.locals(r=Reader, c=cython.int)
    cdef Py_ssize_t image(self, LookTable table, Py_ssize_t at) except -9
