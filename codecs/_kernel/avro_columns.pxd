# The C types of avro_columns.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column
from kvformat.codecs._kernel.text_columns cimport Binaries, Texts
from kvformat.codecs._kernel.memory cimport ascii_end, byte
from kvformat.codecs._kernel.reader cimport Reader


cdef class RepairedTexts(Texts):
    cdef readonly bint is_repaired

    cdef bint is_utf8(self) except -1


cdef class FixedBytes(Binaries):
    pass


cdef class Choices(Column):
    cdef list columns  # list[Column], filled by the constructor: the casts are unchecked
    cdef int[::1] numbers

    @cython.locals(column=Column)
    cdef int choose(self, Py_ssize_t number) except -1
    @cython.locals(column=Column, i=cython.Py_ssize_t)
    cdef int truncate(self, Py_ssize_t length) except -1
