# The C types of times.py.
cimport cython
from kvformat.codecs._kernel.memory cimport DIGIT_0, DIGIT_9, MINUS, POINT, QUOTE, UPPER_Z, byte, few_digits, word
from kvformat.codecs._kernel.columns cimport Int64Column, TENS
from kvformat.codecs._kernel.reader cimport Reader

cdef long long NO_TIME
cdef long long MICROS_OF_A_DAY
cdef long long FIRST_DAY

cdef unsigned long long HIGHS
cdef unsigned long long NO_DIGITS
cdef unsigned long long DATE
cdef unsigned long long DATE_LIMITS
cdef unsigned long long MONTH_DAY
cdef unsigned long long MONTH_DAY_LIMITS
cdef unsigned long long TIME
cdef unsigned long long TIME_LIMITS

cdef inline unsigned long long digits_of(unsigned long long characters, unsigned long long pattern, unsigned long long limits) noexcept nogil
cdef inline int two(unsigned long long digits, int place) noexcept nogil
@cython.locals(days=cython.longlong, last=cython.uint)
cdef long long day_number(unsigned int year, unsigned int month, unsigned int day) noexcept nogil
@cython.locals(year=cython.uint)
cdef long long days_of(Reader r, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(hour=cython.longlong)
cdef long long seconds_of_day(Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
@cython.locals(micros=cython.longlong, seconds=cython.longlong, count=cython.int)
cdef long long micros_of_day(Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil


cdef class Moments(Int64Column):
    cdef long long factor
    cdef unsigned long long most

    @cython.locals(c=cython.int, end=cython.Py_ssize_t, size=cython.longlong)
    cdef Py_ssize_t read_number(self, Reader r, Py_ssize_t at) except -1


cdef class Dates(Moments):
    pass


cdef class Times(Moments):
    pass


cdef class Timestamps(Moments):
    cdef int between
    cdef bint zoned
    cdef long long unit
    cdef int width
