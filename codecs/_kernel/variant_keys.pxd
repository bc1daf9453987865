# The C types of variant_keys.py.
cimport cython
from kvformat.codecs._kernel.memory cimport BACKSLASH, Bytes, QUOTE, SPACE, append, byte, equal, matches, word

cdef unsigned long long ALL
cdef unsigned long long LOW_HALF
cdef unsigned long long FACTOR
cdef Py_ssize_t MOST_KEPT
cdef Py_ssize_t MOST_BYTES_KEPT
cdef const unsigned char[::1] RANKS


@cython.final
cdef class Keys:
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Py_ssize_t used_count
    cdef Bytes text
    cdef Py_ssize_t[::1] ends
    cdef unsigned long long[::1] hashes
    cdef unsigned long long[::1] heads
    cdef int[::1] ids
    cdef long long[::1] values
    cdef unsigned char[::1] plain
    cdef int[::1] after
    cdef int[::1] used
    cdef int[::1] slots
    cdef Py_ssize_t mask
    cdef long long value
    cdef Py_ssize_t last
    cdef bint changed

    cdef int empty(self) except -1
    @cython.locals(i=cython.Py_ssize_t)
    cdef int clear_slots(self, Py_ssize_t size) except -1 nogil
    cdef int start(self) except -1
    cdef inline Py_ssize_t expected(self, const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -9 nogil
    @cython.locals(mixed=cython.ulonglong, chunk=cython.ulonglong, fits=cython.bint, slot=cython.Py_ssize_t, number=cython.Py_ssize_t)
    cdef Py_ssize_t find(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop) except -1 nogil
    @cython.locals(head=cython.ulonglong, plain=cython.bint, i=cython.Py_ssize_t, c=cython.int, rank=cython.ulonglong)
    cdef Py_ssize_t add(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop, unsigned long long mixed) except -1 nogil
    cdef int grow(self) except -1 nogil
    @cython.locals(slot=cython.Py_ssize_t, number=cython.Py_ssize_t)
    cdef int rehash(self) except -1 nogil
    cdef inline Py_ssize_t id_of(self, Py_ssize_t number) except -1 nogil
    @cython.locals(left=cython.Py_ssize_t, right=cython.Py_ssize_t, same=cython.Py_ssize_t)
    cdef inline bint less(self, Py_ssize_t a, Py_ssize_t b) except -1 nogil
