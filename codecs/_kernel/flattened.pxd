# The C types of flattened.py.
cimport cython
from kvformat.codecs._kernel.changes cimport ChangeBatch, OperationRows
from kvformat.codecs._kernel.memory cimport byte, matches
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t BAD
cdef int BEFORE
cdef int AFTER
cdef int OPERATION


cdef class FlatBatch(ChangeBatch):
    cdef OperationRows upserted
    cdef OperationRows deleted
    cdef list watched
    cdef const unsigned char[::1] true  # with quotes

    @cython.locals(end=cython.Py_ssize_t)
    cdef Py_ssize_t find_inside(self, Py_ssize_t at) except -1
    @cython.locals(r=Reader, place=cython.Py_ssize_t, place_of_operation=cython.Py_ssize_t, c=cython.int, number=cython.int, unusual=OperationRows)
    cdef OperationRows find_operation(self, Py_ssize_t at)
    cdef Py_ssize_t add_error_path(self, Py_ssize_t code, int member, int over, Py_ssize_t index) except -1
