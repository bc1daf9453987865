cimport cython
from kvformat.codecs._kernel.placeholder_memory cimport Longs, load

cdef unsigned long long ONES


@cython.final
cdef class Reader:
    cdef const unsigned char[::1] data
    cdef Longs out
    @cython.locals(at=Py_ssize_t, mantissa=cython.longlong)
    cdef int digits(self) except -1 nogil
