# The C types of previous_value.py.
cimport cython
from kvformat.codecs._kernel.memory cimport byte, equal, token
from kvformat.codecs._kernel.reader cimport Reader

cdef int WORTH_COMPARING
cdef int MOST_SCALARS
cdef int NEVER_ALIKE


@cython.final
cdef class PreviousValueCache:
    cdef Py_ssize_t opening  # of the reader when it was learned, and its depth
    cdef int depth
    cdef Py_ssize_t at  # where in the data it is; nothing is known if the size is 0
    cdef Py_ssize_t size
    cdef Py_ssize_t[::1] starts
    cdef Py_ssize_t[::1] ends
    cdef int count
    cdef int doubt

    @cython.locals(end=cython.Py_ssize_t)
    cdef Py_ssize_t skip(self, Reader r, Py_ssize_t at) except -1 nogil
    @cython.locals(there=cython.Py_ssize_t, stop=cython.Py_ssize_t, size=cython.Py_ssize_t, i=cython.int)
    cdef Py_ssize_t alike(self, Reader r, Py_ssize_t at) except -9 nogil
    @cython.locals(start=cython.Py_ssize_t, c=cython.int)
    cdef int learn(self, Reader r, Py_ssize_t at, Py_ssize_t end) except -1 nogil
