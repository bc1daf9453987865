# The C types of csv_times.py.
cimport cython
from kvformat.codecs._kernel.columns cimport Int64Column, add_integer, add_null_integer
from kvformat.codecs._kernel.csv cimport WordCell, is_plain
from kvformat.codecs._kernel.csv_records cimport CsvTokenizer
from kvformat.codecs._kernel.memory cimport SPACE, UPPER_Z, byte
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.time_forms cimport NO_MOMENT, TimeForms
from kvformat.codecs._kernel.times cimport MICROS_OF_A_DAY, NO_TIME, days_of, micros_of_day


cdef class DateCell(WordCell):
    pass


cdef class TimeCell(WordCell):
    cdef long long unit


cdef class TimestampCell(WordCell):
    cdef bint zoned


cdef class FormTimestampCell(WordCell):
    cdef TimeForms forms

    @cython.locals(moment=cython.longlong)
    cdef Py_ssize_t read_texts(self, CsvTokenizer records, Py_ssize_t first, Py_ssize_t last) except -1
    @cython.locals(moment=cython.longlong)
    cdef int read_text(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except -1
