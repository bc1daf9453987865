# The C types of avro_columns.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Binaries, Int64Column, Texts
from kvformat.codecs._kernel.memory cimport ascii_end, byte
from kvformat.codecs._kernel.reader cimport Reader


# Appends a value that ends at the offset `end`. Returns `end`.
cdef inline Py_ssize_t add_integer(Int64Column words, long long value, Py_ssize_t end) except -1:
    cdef Py_ssize_t at = words.length
    if at == words.capacity:
        words.grow(words.capacity * 2)
    words.values[at] = value
    words.valid[at] = True
    words.length = at + 1
    return end


# Appends a null. Returns `end`.
cdef inline Py_ssize_t add_null_integer(Int64Column words, Py_ssize_t end) except -1:
    end = add_integer(words, 0, end)
    words.valid[words.length - 1] = False
    words.nulls += 1
    return end


# Ends a value whose bytes were appended to the column's text. Returns 0.
cdef inline int end_text(Texts texts) except -1:
    cdef Py_ssize_t at = texts.length
    if at == texts.capacity:
        texts.grow(texts.capacity * 2)
    texts.offsets[at + 1] = texts.text.size
    texts.valid[at] = True
    texts.length = at + 1
    return 0


# Appends a null. Returns `end`.
cdef inline Py_ssize_t add_null_text(Texts texts, Py_ssize_t end) except -1:
    end_text(texts)
    texts.valid[texts.length - 1] = False
    texts.nulls += 1
    return end


cdef class RepairedTexts(Texts):
    cdef readonly bint is_repaired

    cdef bint is_utf8(self) except -1


cdef class FixedBytes(Binaries):
    pass
