# The C types of time_forms.py.
cimport cython
from kvformat.codecs._kernel.columns cimport LARGEST, TENS
from kvformat.codecs._kernel.memory cimport COLON, DIGIT_0, DIGIT_9, LOWER_E, MINUS, PLUS, POINT, QUOTE, UPPER_E, UPPER_Z, byte, eight_digits, few_digits, part, word
from kvformat.codecs._kernel.reader cimport Reader
from kvformat.codecs._kernel.times cimport MICROS_OF_A_DAY, Moments, NO_TIME, day_number, days_of, micros_of_day, seconds_of_day

cdef long long NO_MOMENT
cdef long long MOST_DAYS
cdef long long MICROS_OF_A_SECOND
cdef long long UNKNOWN
cdef int EXACT_DIGITS
cdef int KINDS
cdef int WIDTH
cdef int LITERAL
cdef int DIGITS
cdef int YEAR
cdef int SHORT_YEAR
cdef int FRACTION
cdef int HALF
cdef int OFFSET
cdef int ZONE
cdef int OPTIONAL
cdef int DATE_AT_ONCE
cdef int TIME_AT_ONCE
cdef int MONTH
cdef int DAY
cdef int HOUR
cdef int HOUR_OF_HALF
cdef int MINUTE
cdef int SECOND
cdef int ANY
cdef int SHORT
cdef int MINUTES
cdef int COLON_MINUTES
cdef int SECONDS
cdef int COLON_SECONDS
cdef int Z_ZERO


@cython.final
cdef class TimeForms:
    cdef const long long[::1] steps
    cdef const long long[::1] ends
    cdef const long long[::1] kinds
    cdef long long between
    cdef long long longest
    cdef bint with_z
    cdef int count
    cdef readonly bint has_epochs
    cdef bint zoned
    cdef bint lacks_zone
    cdef long long usual_offset
    cdef object zone
    cdef object number
    cdef readonly bint missed_zone
    cdef Reader scratch
    # the fields of the last text
    cdef long long days
    cdef long long year
    cdef int month
    cdef int day
    cdef int hour
    cdef int minute
    cdef int second
    cdef int half
    cdef long long clock
    cdef long long micros
    cdef long long offset
    cdef Py_ssize_t zone_start
    cdef Py_ssize_t zone_stop

    @cython.locals(moment=cython.longlong)
    cpdef object parse(self, bytes text)
    @cython.locals(moment=cython.longlong, form=cython.int, base=cython.Py_ssize_t)
    cdef Py_ssize_t text(self, Reader r, Py_ssize_t at, Py_ssize_t stop) except? -1
    @cython.locals(has_z=cython.bint, days=cython.longlong, micros=cython.longlong, local=cython.longlong)
    cdef inline Py_ssize_t dated(self, Reader r, Py_ssize_t at, Py_ssize_t stop, long long between, long long longest, bint with_z) except? -1
    @cython.locals(base=cython.Py_ssize_t)
    cdef inline bint is_other_date(self, Reader r, Py_ssize_t at, Py_ssize_t stop, int form) except -1
    @cython.locals(moment=cython.longlong, form=cython.int)
    cdef Py_ssize_t json_number(self, Reader r, Py_ssize_t start, Py_ssize_t stop) except? -1
    @cython.locals(mantissa=cython.ulonglong, value=cython.longlong, low=cython.longlong, negative=cython.bint, c=cython.int)
    cdef Py_ssize_t digits(self, Reader r, Py_ssize_t at, Py_ssize_t stop, int form) except? -1
    cdef Py_ssize_t long_number(self, Reader r, Py_ssize_t start, Py_ssize_t stop, int form) except? -1
    @cython.locals(power=cython.longlong, low=cython.longlong, high=cython.longlong, whole=cython.longlong, step=cython.Py_ssize_t)
    cdef Py_ssize_t epoch(self, int form, unsigned long long mantissa, long long exponent, bint negative) except? -1
    cdef int clear(self) noexcept nogil
    @cython.locals(base=cython.Py_ssize_t, kind=cython.longlong, a=cython.longlong, b=cython.longlong, c=cython.int, days=cython.longlong, seconds=cython.longlong)
    cdef Py_ssize_t run(self, Reader r, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t step, Py_ssize_t last) except -2 nogil
    cdef Py_ssize_t run_optional(self, Reader r, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t step, Py_ssize_t last) except -2 nogil
    @cython.locals(count=cython.int)
    cdef int count_digits(self, Reader r, Py_ssize_t at, Py_ssize_t stop, int most) noexcept nogil
    @cython.locals(value=cython.longlong)
    cdef Py_ssize_t run_digits(self, Reader r, Py_ssize_t at, Py_ssize_t stop, long long field, long long least, long long most) noexcept nogil
    cdef Py_ssize_t run_year(self, Reader r, Py_ssize_t at, Py_ssize_t stop, bint signed) noexcept nogil
    @cython.locals(micros=cython.longlong, kept=cython.int)
    cdef Py_ssize_t run_fraction(self, Reader r, Py_ssize_t at, Py_ssize_t stop, long long least, long long most) except -2 nogil
    @cython.locals(seconds=cython.longlong, value=cython.longlong, negative=cython.bint, colon=cython.bint, with_z=cython.bint, parts=cython.int, most=cython.int)
    cdef Py_ssize_t run_offset(self, Reader r, Py_ssize_t at, Py_ssize_t stop, long long style) noexcept nogil
    cdef Py_ssize_t set_offset(self, long long seconds, Py_ssize_t end) noexcept nogil
    @cython.locals(c=cython.int, lower=cython.int)
    cdef Py_ssize_t run_zone(self, Reader r, Py_ssize_t at, Py_ssize_t stop) noexcept nogil
    @cython.locals(days=cython.longlong, cycles=cython.longlong, local=cython.longlong, hour=cython.longlong, seconds=cython.longlong)
    cdef Py_ssize_t moment(self, Reader r) except? -1
    @cython.locals(offset=cython.longlong)
    cdef Py_ssize_t zoned_moment(self, Reader r, long long local) except? -1


cdef class FormTimestamps(Moments):
    cdef TimeForms forms

    @cython.locals(moment=cython.longlong, end=cython.Py_ssize_t)
    cdef Py_ssize_t read_value(self, Reader r, Py_ssize_t at) except -1
