# The C types of message_metadata.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column
from kvformat.codecs._kernel.containers cimport Maps, Members
from kvformat.codecs._kernel.memory cimport LEFT_BRACE, LOWER_N, byte
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t BAD
cdef Py_ssize_t MOST_OF_A_MESSAGE
cdef Py_ssize_t MOST_OF_A_BATCH


@cython.final
cdef class MemberColumn:
    cdef readonly Column column
    cdef int member
    cdef bint is_outer
    cdef bint is_map
    cdef list path

    cdef Py_ssize_t read_value(self, Reader r, Members members) except -1
    cdef int put_empty_map(self, Maps column) except -1


@cython.final
cdef class MessageMetadata:
    cdef list columns  # of MemberColumn, as the constructor filled it: they are cast unchecked
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t repeated
    cdef Py_ssize_t weighed

    @cython.locals(column=MemberColumn)
    cdef int start(self, Py_ssize_t messages) except -1
    @cython.locals(column=MemberColumn, status=cython.Py_ssize_t)
    cdef Py_ssize_t read_values(self, Reader r, Members members, Members outer, bint needed) except -1
    @cython.locals(column=MemberColumn, weight=cython.Py_ssize_t, weighed=cython.Py_ssize_t)
    cdef Py_ssize_t end_message(self, Py_ssize_t rows) except -1
    @cython.locals(column=MemberColumn)
    cdef int undo(self) except -1
