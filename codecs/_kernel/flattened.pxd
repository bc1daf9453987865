# The C types of flattened.py.
cimport cython
from kvformat.codecs._kernel.changes cimport ChangeBatch
from kvformat.codecs._kernel.memory cimport LOWER_N, LOWER_T, QUOTE, byte, matches
from kvformat.codecs._kernel.operation_rows cimport OperationRows
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t BAD
cdef int BEFORE
cdef int OPERATION
cdef int PAYLOAD


cdef class FlatBatch(ChangeBatch):
    cdef OperationRows upserted
    cdef OperationRows deleted
    cdef list watched
    cdef const unsigned char[::1] true  # with quotes

    @cython.locals(number=cython.int, uncommon=OperationRows)
    cdef OperationRows find_operation(self, Py_ssize_t at)
