# The C types of message_metadata.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column
from kvformat.codecs._kernel.containers cimport Maps, Members
from kvformat.codecs._kernel.memory cimport byte
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t BAD
cdef Py_ssize_t MOST_OF_A_MESSAGE
cdef Py_ssize_t MOST_OF_A_BATCH


@cython.final
cdef class MessageMetadata:
    cdef list columns
    cdef object plan
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t repeated
    cdef Py_ssize_t weighed

    cdef int start(self, Py_ssize_t messages) except -1
    @cython.locals(column=Column, found=cython.Py_ssize_t)
    cdef Py_ssize_t read_values(self, Reader r, Members members, Members outer, bint needed) except -1
    @cython.locals(place=cython.Py_ssize_t, length=cython.Py_ssize_t, c=cython.int, found=cython.Py_ssize_t)
    cdef Py_ssize_t read_member(self, Reader r, Members members, Column column, Py_ssize_t number, bint is_map) except -1
    cdef int no_entries(self, Maps column) except -1
    @cython.locals(column=Column, weight=cython.Py_ssize_t, weighed=cython.Py_ssize_t)
    cdef Py_ssize_t end(self, Py_ssize_t rows) except -1
    @cython.locals(column=Column)
    cdef int undo(self) except -1
