# The C types of unread.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column, Words
from kvformat.codecs._kernel.memory cimport matches, part
from kvformat.codecs._kernel.reader cimport Reader


cdef class Repeats(Words):
    cdef readonly list texts
    cdef const unsigned char[::1] last
    cdef Py_ssize_t size

    cpdef int start(self, Py_ssize_t capacity) except -1
    @cython.locals(end=cython.Py_ssize_t)
    cdef Py_ssize_t read(self, Reader r, Py_ssize_t at) except -1


cdef class Presence(Words):
    @cython.locals(end=cython.Py_ssize_t)
    cdef Py_ssize_t read(self, Reader r, Py_ssize_t at) except -1
