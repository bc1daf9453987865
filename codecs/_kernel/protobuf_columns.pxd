# The C types of protobuf_columns.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column, Int64Column
from kvformat.codecs._kernel.text_columns cimport Texts
from kvformat.codecs._kernel.containers cimport Lists
from kvformat.codecs._kernel.memory cimport same

cdef Py_ssize_t MOST_BYTES
cdef Py_ssize_t BYTES_OF_A_CELL
cdef int FEW


cdef class Pairs(Lists):
    cdef readonly Column keys
    cdef readonly Column items
    cdef Int64Column words
    cdef Texts texts
    cdef bint has_equal

    @cython.locals(first=cython.Py_ssize_t)
    cdef int compare(self) except -1
    @cython.final
    @cython.locals(start=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef inline bint equal(self, Py_ssize_t a, Py_ssize_t b) except -1


cdef class EnumNames(Int64Column):
    cdef object numbers
    cdef object names
    cdef readonly Py_ssize_t most
