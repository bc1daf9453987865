# The C types of csv_batch.py.
cimport cython
from kvformat.codecs._kernel.containers cimport Rows
from kvformat.codecs._kernel.csv cimport Cell
from kvformat.codecs._kernel.csv_records cimport BLOCK, CsvTokenizer
from kvformat.codecs._kernel.memory cimport byte
from kvformat.codecs._kernel.messages cimport TextBatch
from kvformat.codecs._kernel.reader cimport Reader

cdef int FAULT
cdef int NO_RECORD
cdef int NOT_TEXT
cdef int UNKNOWN_ENCODING
cdef int TOO_MANY_COLUMNS
cdef int NOT_ENOUGH_COLUMNS
cdef int LENGTH_MISMATCH
cdef int TOO_MUCH_TEXT


cdef class CsvBatch(TextBatch):
    cdef Rows root
    cdef list cells  # list[Cell], filled by the caller of the constructor: the casts are unchecked
    cdef CsvTokenizer records
    cdef object words
    cdef bint lenient
    cdef bint ignore_trailing_unmappable
    cdef bint allow_trailing_comma
    cdef bint fail_on_missing_columns
    cdef Py_ssize_t[::1] numbers  # the messages of the records in `records`
    cdef bint at_once
    cdef list removed  # the messages whose rows were removed because of bad values
    cdef object bad

    @cython.final
    cdef Py_ssize_t find_record(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t read_others(self, Py_ssize_t at, bint loose) except -1
    cdef Py_ssize_t end_record(self, Py_ssize_t at, bint loose) except -1
    cdef int reject(self) except -9
    @cython.final
    cdef int read_records(self) except -1
    cdef Py_ssize_t read_columns(self, Py_ssize_t first, Py_ssize_t stop) except -1
    cdef int add_value_error(self, Py_ssize_t message) except -1
