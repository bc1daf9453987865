# The C types of unread.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column, Int64Column
from kvformat.codecs._kernel.memory cimport matches, part
from kvformat.codecs._kernel.reader cimport Reader


cdef class Repeats(Int64Column):
    cdef readonly list texts
    cdef const unsigned char[::1] last
    cdef Py_ssize_t size


cdef class Presence(Int64Column):
    pass
