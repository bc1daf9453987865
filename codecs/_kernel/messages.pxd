# The C types of messages.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Rows
from kvformat.codecs._kernel.memory cimport Bytes, COMMA, LEFT_BRACE, LEFT_BRACKET, LOWER_N, RIGHT_BRACKET, append_bytes, byte, part, token, word
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.tree cimport Tree

cdef Py_ssize_t FAULT
cdef Py_ssize_t BAD
cdef int EXPECTED_COMMA
cdef int EXPECTED_VALUE
cdef int TOO_LARGE
cdef int TOO_MANY_CELLS
cdef int TRAILING


@cython.final
cdef class Faults:
    cdef Bytes text
    cdef Py_ssize_t[::1] numbers
    cdef Py_ssize_t count

    cdef int end(self, Py_ssize_t message, Py_ssize_t code) except -1


cdef class Messages:
    cdef Faults faults
    cdef readonly int[::1] offsets
    cdef unsigned char[::1] present
    cdef public Py_ssize_t rows
    cdef public Py_ssize_t skip
    cdef public unsigned long long head
    cdef public unsigned long long mask
    cdef readonly Py_ssize_t unframed
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t current  # the index of the message that is read
    cdef readonly Py_ssize_t usual_rows

    cdef tuple begin(self, object messages)
    cdef Py_ssize_t capacity(self, Py_ssize_t messages) except -1
    @cython.locals(text=str)
    cdef int add_error(self, object said) except -9


cdef class TextBatch(Messages):
    cdef readonly Reader reader

    cdef object recode(self, object message)
    cdef bint is_usual(self, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef int read_empty(self, Py_ssize_t at) except -9
    cdef int read_message(self, Py_ssize_t begin, Py_ssize_t end, bint loose) except -9
    cdef int undo(self, Py_ssize_t rows) except -1
    cdef int end_batch(self) except -1
    @cython.locals(begin=cython.Py_ssize_t, end=cython.Py_ssize_t, plain=cython.bint, ahead=cython.bint, offsets="const int[::1]", valid="const unsigned char[::1]", has_nulls=cython.bint, shift=cython.Py_ssize_t)
    cpdef int run(self, object messages) except -1
    cdef int read_recoded(self, object message) except -9
    cdef int reject_encoding(self) except -9


cdef class Batch(TextBatch):
    cdef readonly object words
    cdef dict placed
    cdef object malformed
    cdef Py_ssize_t value_end
    cdef Tree nodes

    cdef Py_ssize_t check_end(self, Py_ssize_t end, bint loose) except -1
    cdef int add_value_error(self) except -9
    cdef object only_value(self, Py_ssize_t at, bint loose)
    @cython.locals(known=tuple, text=bytes)
    cdef int add_syntax_error(self, bint loose) except -9


cdef class JsonBatch(Batch):
    cdef readonly Rows root

    cdef Py_ssize_t document(self, Py_ssize_t at, bint loose) except -1
    @cython.locals(index=cython.Py_ssize_t)
    cdef Py_ssize_t elements(self, Py_ssize_t at) except -1
    cdef int no_rows(self, Py_ssize_t at, bint loose) except -9
    cdef int reread(self, Py_ssize_t at, Py_ssize_t rows, bint loose) except -9
    cdef Py_ssize_t read_carefully(self, Py_ssize_t at, Py_ssize_t rows, bint loose) except -1
