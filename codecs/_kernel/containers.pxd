# The C types of containers.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Column, Slices
from kvformat.codecs._kernel.text_columns cimport Texts
from kvformat.codecs._kernel.memory cimport Bytes, COLON, COMMA, LEFT_BRACE, LEFT_BRACKET, QUOTE, RIGHT_BRACE, RIGHT_BRACKET, byte, matches, part, special, token
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t BAD
cdef Py_ssize_t CELLS_PER_BYTE
cdef int EXPECTED_NAME
cdef int EXPECTED_COMMA
cdef int DOUBTFUL
cdef int TOO_DEEP
cdef int MAX_DEPTH


@cython.final
cdef class Names:
    cdef readonly int count
    cdef dict numbers
    cdef const unsigned char[::1] texts  # `"name":` of all names
    cdef int[::1] starts  # of each name, and the end of the last name
    cdef int[::1] buckets
    cdef int[::1] chains
    cdef int[::1] followers
    cdef readonly Py_ssize_t value
    cdef int doubt

    @cython.locals(start=cython.Py_ssize_t)
    cdef inline int find(self, Reader r, Py_ssize_t at, Py_ssize_t width) except -9 nogil
    @cython.locals(start=cython.Py_ssize_t, width=cython.Py_ssize_t)
    cdef inline int read_name(self, Reader r, Py_ssize_t at, int before) except -9
    cdef int search(self, Reader r, Py_ssize_t at, int before) except -9
    cdef int search_escaped(self, Reader r, Py_ssize_t at) except -9


cdef class Lists(Slices):
    cdef readonly Column element
    cdef Py_ssize_t counted  # cells of an element, 0 if they need not be counted

    cdef Py_ssize_t read_element(self, Reader r, Column column, Py_ssize_t at, Py_ssize_t first) except -1
    cdef bint has_open(self) except -1
    cdef int end(self) except -1


cdef class Maps(Lists):
    cdef readonly Texts keys
    cdef readonly Column items

    cdef Py_ssize_t read_entries(self, Reader r, Py_ssize_t at, Py_ssize_t first) except -1
    cdef Py_ssize_t read_by_name(self, Reader r, Py_ssize_t at, Py_ssize_t first) except -1
    cdef Py_ssize_t read_last_values(self, Reader r, dict places, Py_ssize_t first) except -1
    cdef Py_ssize_t read_named_value(self, Reader r, Py_ssize_t at, object name) except -1
    cdef object name_step(self, Reader r, object name)


cdef class Members


cdef class Rows(Column):
    cdef list columns  # list[Column], filled by the constructor: the casts are unchecked
    cdef list field_names
    cdef readonly Names names
    cdef Members last
    cdef Members noted
    cdef readonly Py_ssize_t looked_at  # the end of the object at the last careful reading, or a code

    cdef Py_ssize_t read_members(self, Reader r, Py_ssize_t at) except -1
    @cython.locals(column=Column, place=cython.Py_ssize_t)
    cdef Py_ssize_t read_members_carefully(self, Reader r, Py_ssize_t at) except -1
    @cython.locals(column=Column, all=cython.Py_ssize_t)
    cdef Py_ssize_t weight(self) noexcept
    cdef Py_ssize_t repeat_row(self, Reader r, Members members, Members laid) except -1
    cdef Py_ssize_t close(self, Reader r, Py_ssize_t end) except -1
    cdef int end_row(self) except -1


cdef class Members:
    cdef readonly Names names
    cdef readonly Py_ssize_t[::1] places

    @cython.final
    cdef int forget(self) except -1
    cdef Py_ssize_t find_members(self, Reader r, Py_ssize_t at) except -1
    cdef Py_ssize_t skip_value(self, Reader r, int number, Py_ssize_t at) except -1
