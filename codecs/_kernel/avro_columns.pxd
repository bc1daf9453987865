# The C types of avro_columns.py.
from kvformat.codecs._kernel.columns cimport Binaries, Column, Texts
from kvformat.codecs._kernel.memory cimport append_bytes, ascii_end


cdef class Nulls(Column):
    pass


cdef class RepairedTexts(Texts):
    cdef readonly bint is_repaired


cdef class FixedBytes(Binaries):
    pass


cdef class WideDecimals(FixedBytes):
    pass
