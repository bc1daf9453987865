# The C types of changes.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Members, Rows
from kvformat.codecs._kernel.memory cimport Bytes, COMMA, LEFT_BRACE, LEFT_BRACKET, LOWER_N, RIGHT_BRACE, RIGHT_BRACKET, byte, matches, token
from kvformat.codecs._kernel.message_metadata cimport MessageMetadata
from kvformat.codecs._kernel.messages cimport Batch
from kvformat.codecs._kernel.operation_rows cimport OperationRows
from kvformat.codecs._kernel.previous_value cimport PreviousValueCache
from kvformat.codecs._kernel.read_ahead cimport ReadAhead
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t FAULT
cdef Py_ssize_t BAD
cdef int EXPECTED_COMMA
cdef int TOO_LARGE
cdef int TOO_MANY_CELLS
cdef int MOST_COMPARED
cdef int PAYLOAD
cdef int BEFORE
cdef int AFTER
cdef int OPERATION


cdef class EnvelopeMembers(Members):
    cdef ReadAhead ahead
    cdef bint is_row
    cdef list previous_values  # of caches, as the constructor filled it: they are cast unchecked
    cdef int compared  # how many objects and arrays of this message


cdef class OuterMembers(Members):
    cdef EnvelopeMembers payload


cdef class ChangeBatch(Batch):
    cdef readonly object plan
    cdef readonly Rows image
    cdef MessageMetadata metadata
    cdef ReadAhead ahead
    cdef EnvelopeMembers members
    cdef OuterMembers outer
    cdef bint wrapped
    cdef bint in_arrays
    cdef list filters
    cdef list operations  # as the constructor filled it: they are cast unchecked
    cdef const unsigned char[::1] operation_texts  # with quotes, concatenated
    cdef int[::1] operation_starts  # of each text, and the end of the last one
    cdef Bytes kinds
    cdef Py_ssize_t after_end  # where the rows of the last change end
    cdef Py_ssize_t before_end

    cdef int finish_message(self, Py_ssize_t rows) except -9
    cdef Py_ssize_t read_change_message(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t find_envelope(self, Py_ssize_t at) except -1
    cdef Py_ssize_t refuse_value(self, Py_ssize_t at, bint loose) except -1
    @cython.locals(element=cython.Py_ssize_t)
    cdef Py_ssize_t find_only_element(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t read_change(self, Py_ssize_t at) except -1
    cdef bint has_payload(self) except -1
    cdef bint passes_filter(self, int number) except -1
    @cython.locals(start=cython.Py_ssize_t, i=cython.int, uncommon=OperationRows)
    cdef OperationRows find_operation(self, Py_ssize_t at)
    cdef object message_node(self, Py_ssize_t at)
    cdef object array_lengths(self)
    cdef Py_ssize_t read_rows(self, OperationRows operation) except -1
    cdef bint lacks_before(self) except -1
    cdef bint is_empty(self, int member) except -1
    cdef bint is_delete_without_row(self, OperationRows operation) except -1
    @cython.locals(index=cython.Py_ssize_t)
    cdef Py_ssize_t read_row_arrays(self, OperationRows operation) except -1
    cdef Py_ssize_t read_row_pair(self, OperationRows operation, Py_ssize_t before, Py_ssize_t after, Py_ssize_t index) except -1
    cdef Py_ssize_t read_row(self, Py_ssize_t at, Py_ssize_t laid, int kind) except -1
    @cython.locals(member=cython.int)
    cdef Py_ssize_t check_unused(self, object members) except -1
    cdef Py_ssize_t check_elements(self, int member, Py_ssize_t at, Py_ssize_t index) except -1
    cdef Py_ssize_t check_row(self, int member, Py_ssize_t at, Py_ssize_t index) except -1
    cdef Py_ssize_t next_element(self, Py_ssize_t at) except -1
    cdef bint is_opened(self, int opening, int member, Py_ssize_t at, Py_ssize_t index) except -1
    cdef Py_ssize_t add_error_path(self, Py_ssize_t code, int member, bint overlaid, Py_ssize_t index) except -1
