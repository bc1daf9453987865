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

    @cython.locals(closing=cython.int, is_object=cython.bint)
    cpdef object read_node(self, Reader r, Py_ssize_t at)
    cdef object scalar(self, Reader r, Py_ssize_t at)
    cdef object name(self, Reader r, Py_ssize_t at)
    cdef object string(self, Reader r, Py_ssize_t at, Py_ssize_t end)
    cdef object stop(self, Py_ssize_t code)
    cdef object object_of(self, list members)
