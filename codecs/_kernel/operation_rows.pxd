# The C types of operation_rows.py.
cimport cython


@cython.final
cdef class OperationRows:
    cdef readonly int count
    cdef readonly list unused
    cdef readonly bint or_before
    cdef readonly int[::1] kinds
    cdef readonly int[::1] members
    cdef readonly int[::1] overlays
