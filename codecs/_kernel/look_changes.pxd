# The C types of look_changes.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Names
from kvformat.codecs._kernel.look cimport LookBatch, LookTable
from kvformat.codecs._kernel.memory cimport Bytes, COMMA, LEFT_BRACE, LEFT_BRACKET, LOWER_F, LOWER_N, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, append, byte, matches, part, special, token, word
from kvformat.codecs._kernel.previous_value cimport NEVER_ALIKE, PreviousValueCache, WORTH_COMPARING
from kvformat.codecs._kernel.reader cimport Reader

cdef unsigned long long FALSE_TEXT
cdef int MAX_DEPTH
cdef unsigned long long NULL_TEXT
cdef Py_ssize_t CLOSER
cdef int FIRST
cdef int SECOND
cdef int OPERATION
cdef int KEY
cdef int DECLARED
cdef int STATEMENT
cdef int NAMES
cdef unsigned long long ALL
cdef int DOUBTFUL
cdef int MOST_PARTS
cdef int MOST_MOVED


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
    @cython.locals(r=Reader, operation=cython.ulonglong, place=cython.int)
    cdef bint is_known_operation(self, Py_ssize_t at, Py_ssize_t size) except -1
    @cython.locals(r=Reader, c=cython.int)
    cdef Py_ssize_t image(self, LookTable table, Py_ssize_t at) except -9
