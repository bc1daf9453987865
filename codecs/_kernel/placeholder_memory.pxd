from libc.string cimport memcpy


cdef inline unsigned long long load(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long word = 0
    if 0 <= at and at + 8 <= data.shape[0]:
        memcpy(&word, &data[at], 8)
    return word


cdef class Longs:
    cdef long long[::1] values
    cdef Py_ssize_t length
    cdef int add(self, long long value) except -1 nogil
    cdef int grow(self) except -1
