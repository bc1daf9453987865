# The C types of changes.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Members, Rows
from kvformat.codecs._kernel.previous_value cimport PreviousValueCache
from kvformat.codecs._kernel.memory cimport Bytes, byte, matches, token
from kvformat.codecs._kernel.messages cimport Batch
from kvformat.codecs._kernel.message_metadata cimport MessageMetadata
from kvformat.codecs._kernel.reader cimport Reader

cdef Py_ssize_t FAULT
cdef Py_ssize_t BAD
cdef int EXPECTED_COMMA
cdef int MAX_DEPTH
cdef int TOO_DEEP
cdef int TOO_LARGE
cdef int TOO_MANY_CELLS
cdef int MOST_COMPARED
cdef int BEFORE
cdef int AFTER
cdef int OPERATION


@cython.final
cdef class OperationRows:
    cdef readonly int count
    cdef readonly list others
    cdef readonly int[::1] kinds
    cdef readonly int[::1] members
    cdef readonly int[::1] overs


cdef class Parts


cdef class ChangeBatch(Batch):
    cdef readonly object plan
    cdef readonly Rows image
    cdef MessageMetadata metadata
    cdef Parts members
    cdef Parts root
    cdef Members own  # where the members of the last row are, and of that laid over it
    cdef Members laid
    cdef bint wrapped
    cdef bint many
    cdef bint partial
    cdef bint upsert  # rows before updates are not wanted
    cdef list filters
    cdef bint reading_ahead  # rows were read where they were found
    cdef bint read_ahead_accepted  # and these are all
    cdef Py_ssize_t element  # where the last of them is
    cdef int taken  # how many, in which members, and where these are
    cdef int first
    cdef int second
    cdef Py_ssize_t first_at
    cdef Py_ssize_t second_at
    cdef bint found
    cdef list previous_values  # of what is not read as rows, as the constructor filled it
    cdef int containers_seen  # how many objects and arrays of the message
    cdef list operations  # as the constructor filled it: they are cast unchecked
    cdef const unsigned char[::1] operation_texts  # their texts with quotes, one behind the other
    cdef int[::1] operation_starts
    cdef Bytes kinds

    @cython.locals(at=cython.Py_ssize_t, found=cython.Py_ssize_t, rows=cython.Py_ssize_t, r=Reader)
    cdef int read_message(self, Py_ssize_t begin, Py_ssize_t end, bint loose) except -9
    cdef int undo(self, Py_ssize_t rows) except -1
    @cython.locals(count=cython.Py_ssize_t, weight=cython.Py_ssize_t)
    cdef int finish_message(self, Py_ssize_t rows) except -9
    @cython.locals(r=Reader, end=cython.Py_ssize_t, c=cython.int)
    cdef Py_ssize_t message(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t find(self, Py_ssize_t at) except -1
    cdef Py_ssize_t find_inside(self, Py_ssize_t at) except -1
    @cython.locals(r=Reader)
    cdef Py_ssize_t outer_value(self, int number, Py_ssize_t at) except -1
    @cython.locals(r=Reader, c=cython.int, cache=PreviousValueCache)
    cdef Py_ssize_t inner_value(self, int number, Py_ssize_t at) except -1
    @cython.locals(r=Reader, row=cython.Py_ssize_t, end=cython.Py_ssize_t, c=cython.int, depth=cython.int, fine=cython.bint)
    cdef Py_ssize_t read_ahead(self, int number, Py_ssize_t at) except -1
    @cython.locals(end=cython.Py_ssize_t)
    cdef Py_ssize_t noting(self, Members members, Py_ssize_t at) except -1
    @cython.locals(place=cython.Py_ssize_t, wanted=cython.int, i=cython.int)
    cdef int accept_read_ahead(self, OperationRows operation) except -1
    @cython.locals(place=cython.Py_ssize_t, c=cython.int)
    cdef bint is_row_or_null(self, int number) except -1
    @cython.locals(r=Reader, old=cython.Py_ssize_t, end=cython.Py_ssize_t, c=cython.int, i=cython.int)
    cdef int accept_open_row(self, OperationRows operation) except -1
    cdef Py_ssize_t no_object(self, Py_ssize_t at, bint loose) except -1
    @cython.locals(r=Reader, c=cython.int, here=cython.Py_ssize_t)
    cdef Py_ssize_t only_element(self, Py_ssize_t at, bint loose) except -1
    @cython.locals(r=Reader, place=cython.Py_ssize_t, found=cython.Py_ssize_t, before=cython.Py_ssize_t, operation=OperationRows)
    cdef Py_ssize_t changes(self, Py_ssize_t at) except -1
    cdef Py_ssize_t not_a(self, Py_ssize_t at, object column) except -1
    @cython.locals(place=cython.Py_ssize_t)
    cdef bint is_wanted(self, int number, object pattern, object member) except -1
    @cython.locals(r=Reader, place=cython.Py_ssize_t, start=cython.Py_ssize_t, i=cython.int, operation=OperationRows, unusual=OperationRows)
    cdef OperationRows find_operation(self, Py_ssize_t at)
    cdef object whole(self, Py_ssize_t at)
    @cython.locals(member=cython.int, over=cython.int, i=cython.int, old=cython.Py_ssize_t, found=cython.Py_ssize_t)
    cdef Py_ssize_t single(self, OperationRows operation) except -1
    @cython.locals(place=cython.Py_ssize_t)
    cdef bint is_bare(self, OperationRows operation) except -1
    @cython.locals(r=Reader, over=cython.int, i=cython.int, new=cython.Py_ssize_t, old=cython.Py_ssize_t, index=cython.Py_ssize_t, found=cython.Py_ssize_t, end_of_new=cython.Py_ssize_t, end_of_old=cython.Py_ssize_t)
    cdef Py_ssize_t several(self, OperationRows operation) except -1
    @cython.locals(member=cython.int, place=cython.Py_ssize_t, found=cython.Py_ssize_t)
    cdef Py_ssize_t others(self, object members) except -1
    @cython.locals(r=Reader, found=cython.Py_ssize_t)
    cdef Py_ssize_t other_elements(self, int member, Py_ssize_t at, Py_ssize_t index) except -1
    @cython.locals(found=cython.Py_ssize_t)
    cdef Py_ssize_t other_row(self, int member, Py_ssize_t at, Py_ssize_t index) except -1
    @cython.locals(r=Reader)
    cdef Py_ssize_t next_element(self, Py_ssize_t at) except -1
    @cython.locals(r=Reader, c=cython.int)
    cdef bint is_there(self, int member, Py_ssize_t at, int opening, Py_ssize_t index) except -1
    @cython.locals(r=Reader, end=cython.Py_ssize_t, image=Rows)
    cdef Py_ssize_t row(self, Py_ssize_t at, Py_ssize_t over, int kind) except -1
    @cython.locals(r=Reader, place=cython.Py_ssize_t)
    cdef Py_ssize_t add_error_path(self, Py_ssize_t code, int member, int over, Py_ssize_t index) except -1


cdef class Parts(Members):
    cdef ChangeBatch batch
    cdef bint outer

    cdef Py_ssize_t skip_value(self, Reader r, int number, Py_ssize_t at) except -1
