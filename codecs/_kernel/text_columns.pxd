# The C types of text_columns.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Slices
from kvformat.codecs._kernel.memory cimport Bytes, DIGIT_0, DIGIT_9, EQUALS, LEFT_BRACE, LEFT_BRACKET, LOWER_F, LOWER_T, MINUS, QUOTE, append, append_bytes, byte, special
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t NEEDS_PYTHON
cdef int TOO_LARGE
cdef unsigned long long MOST_BYTES
cdef const unsigned long long[::1] SEXTETS


cdef class Texts(Slices):
    cdef Bytes text

    @cython.final
    cdef inline Py_ssize_t done(self, Reader r, Py_ssize_t end) except -1
    @cython.locals(start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef bint repeat(self) except -1


cdef class Binaries(Texts):
    @cython.locals(i=cython.int, padded=cython.int)
    cdef bint decoded(self, Reader r, Py_ssize_t at, Py_ssize_t end) except -1


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
