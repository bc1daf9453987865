# The C types of avro_changes.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Booleans, Column
from kvformat.codecs._kernel.text_columns cimport Texts
from kvformat.codecs._kernel.containers cimport Rows
from kvformat.codecs._kernel.memory cimport Bytes, byte, matches
from kvformat.codecs._kernel.operation_rows cimport OperationRows

cdef int BEFORE


cdef class Image(Rows):
    cdef readonly Rows image
    cdef int member
    cdef readonly Bytes members
    cdef Py_ssize_t place


cdef class Changes(Rows):
    cdef readonly Rows image
    cdef Bytes members
    cdef list operations  # list[OperationRows], filled by the constructor: the casts are unchecked
    cdef const unsigned char[::1] operation_texts  # concatenated
    cdef int[::1] operation_starts  # of each text, and the end of the last one
    cdef int[::1] first_operations  # by the first byte of the text, -1 if there is none
    cdef int[::1] offsets
    cdef int[::1] ends
    cdef Bytes kinds
    cdef Py_ssize_t[::1] places
    cdef bint are_scattered
    cdef list faults

    cdef int end_message(self) except -1
    cdef int add_rows(self, Py_ssize_t message) except -1
    cdef int find_operation(self, Py_ssize_t message) except -9
    @cython.locals(i=cython.int, start=cython.Py_ssize_t, end=cython.Py_ssize_t, first=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef int find_text(self, Texts texts, Py_ssize_t index) except -9
    cdef Py_ssize_t place_of(self, OperationRows operation, int number, Py_ssize_t message) except -9


cdef class Envelopes(Changes):
    cdef Image before
    cdef Image after
    cdef Texts op
    cdef bint bare_deletes

    @cython.locals(is_before=cython.bint)
    cdef Py_ssize_t place_of(self, OperationRows operation, int number, Py_ssize_t message) except -9


cdef class FlatChanges(Changes):
    cdef Column op
    cdef Texts op_text
    cdef Texts deleted_text
    cdef Booleans deleted_flag
    cdef const unsigned char[::1] true
    cdef int upserted
    cdef int deleted

    @cython.locals(start=cython.Py_ssize_t, end=cython.Py_ssize_t)
    cdef bint is_deleted(self, Py_ssize_t row) except -1
