# The C types of tree.py.
cimport cython
from kvformat.codecs._kernel.memory cimport COMMA, LEFT_BRACE, LEFT_BRACKET, LOWER_F, LOWER_N, LOWER_T, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, byte, token
from kvformat.codecs._kernel.reader cimport Reader

cdef int CONTROL
cdef int EXPECTED_COMMA
cdef int MAX_DEPTH
cdef int TOO_DEEP


@cython.final
cdef class Tree:
    cdef bint keep_repeats
    cdef readonly Py_ssize_t end

    @cython.locals(c=cython.int, closing=cython.int, stop=cython.Py_ssize_t, is_object=cython.bint)
    cpdef object read_node(self, Reader r, Py_ssize_t at)
    @cython.locals(c=cython.int)
    cdef object scalar(self, Reader r, Py_ssize_t at)
    @cython.locals(start=cython.Py_ssize_t)
    cdef object name(self, Reader r, Py_ssize_t at)
    @cython.locals(place=cython.Py_ssize_t)
    cdef object string(self, Reader r, Py_ssize_t at, Py_ssize_t end)
    cdef object stop(self, Py_ssize_t code)
    cdef object object_of(self, list members)
