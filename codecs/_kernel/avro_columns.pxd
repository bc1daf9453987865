# The C types of avro_columns.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Binaries, Texts
from kvformat.codecs._kernel.memory cimport ascii_end, byte
from kvformat.codecs._kernel.reader cimport Reader


cdef class RepairedTexts(Texts):
    cdef readonly bint is_repaired

    cdef bint is_utf8(self) except -1


cdef class FixedBytes(Binaries):
    pass
