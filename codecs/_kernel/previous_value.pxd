# The C types of previous_value.py.
cimport cython
from kvformat.codecs._kernel.memory cimport COLON, COMMA, LEFT_BRACE, LEFT_BRACKET, RIGHT_BRACE, RIGHT_BRACKET, byte, equal, token
from kvformat.codecs._kernel.reader cimport Reader

cdef int WORTH_COMPARING
cdef int MOST_SCALARS
cdef int NEVER_ALIKE
cdef unsigned long long ONE


@cython.final
cdef class PreviousValueCache:
    cdef Py_ssize_t opening  # the reader's count of data that it opened, when the value was noted
    cdef int depth  # of the value
    cdef Py_ssize_t at  # the offset of the value
    cdef Py_ssize_t size  # its bytes; 0 if no value is noted
    cdef Py_ssize_t[::1] starts
    cdef Py_ssize_t[::1] ends
    cdef Py_ssize_t[::1] new_starts
    cdef Py_ssize_t[::1] new_ends
    cdef unsigned long long changed
    cdef int count
    cdef int doubt

    cdef Py_ssize_t skip(self, Reader r, Py_ssize_t at) except -1 nogil
    cdef Py_ssize_t compare(self, Reader r, Py_ssize_t at) except -9 nogil
    @cython.locals(i=cython.int)
    cdef Py_ssize_t skip_alike(self, Reader r, Py_ssize_t at) except -9 nogil
    cdef int note_value(self, Reader r, Py_ssize_t at, Py_ssize_t end) except -1 nogil
