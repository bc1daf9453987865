# The C types of read_ahead.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Members, Rows
from kvformat.codecs._kernel.memory cimport LEFT_BRACE, LEFT_BRACKET, LOWER_N, RIGHT_BRACKET, byte, token
from kvformat.codecs._kernel.operation_rows cimport OperationRows
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t FAULT
cdef Py_ssize_t BAD
cdef int TOO_LARGE
cdef int TOO_MANY_CELLS
cdef int BEFORE
cdef int AFTER


@cython.final
cdef class ReadAhead:
    cdef Rows image
    cdef bint in_arrays
    cdef bint keeps_open
    cdef int most
    cdef bint started  # the message had an object with rows before
    cdef bint active
    cdef bint accepted
    cdef int count
    cdef int[::1] members
    cdef Py_ssize_t[::1] offsets
    cdef Py_ssize_t rows_before
    cdef Py_ssize_t cells
    cdef Members own  # the offsets of the members of the open row
    cdef Members laid  # the offsets of the members of the row that is laid over it

    cdef int begin_message(self, Py_ssize_t rows_before) except -1
    cdef int begin_object(self, Reader r) except -1
    cdef bint wants(self, int number) noexcept
    cdef Py_ssize_t read_value(self, Reader r, int number, Py_ssize_t at) except -1
    cdef Py_ssize_t read_row(self, Reader r, Py_ssize_t at) except -1
    cdef Py_ssize_t read_noting(self, Reader r, Members members, Py_ssize_t at) except -1
    cdef bint accept(self, Reader r, Members members, OperationRows operation) except -1
    cdef bint are_wanted(self, Members members, OperationRows operation) except -1
    cdef bint finish_open_row(self, Reader r, Members members, OperationRows operation) except -1
    cdef bint lay_over(self, Reader r, Py_ssize_t at) except -1
