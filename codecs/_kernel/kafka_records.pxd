# The C types of kafka_records.py.
cimport cython
from kvformat.codecs._kernel.librdkafka cimport Header, Library, consume, copy_bytes, copy_part, destroy, epoch_of, error_of, headers_of, next_header, offset_of, partition_of, size_of, timestamp_of, topic_of

cdef int KEY
cdef int VALUE
cdef int HEADERS
cdef int OFFSET
cdef int TIMESTAMP
cdef int TIMESTAMP_TYPE
cdef int LEADER_EPOCH
cdef long long MOST_MILLIS
cdef int END_OF_PARTITION


@cython.final
cdef class BytesColumn:
    cdef int[::1] ends
    cdef unsigned char[::1] data
    cdef unsigned char[::1] valid
    cdef Py_ssize_t length
    cdef Py_ssize_t size
    cdef Py_ssize_t nulls

    cdef int start(self, Py_ssize_t count, Py_ssize_t size) except -1
    cdef int end_value(self, Py_ssize_t size, bint valid) except -1 nogil
    cdef int add_part(self, size_t message, bint key) except -1 nogil
    cdef int add(self, size_t address, Py_ssize_t size) except -1 nogil


@cython.final
cdef class KafkaRecords:
    cdef Library library
    cdef size_t queue
    cdef unsigned long long[::1] messages
    cdef Py_ssize_t held
    cdef Py_ssize_t next
    cdef int wanted
    cdef int partition
    cdef long long end
    cdef readonly long long position
    cdef readonly int error
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t stop
    cdef Py_ssize_t key_bytes
    cdef Py_ssize_t value_bytes
    cdef Py_ssize_t header_count
    cdef Py_ssize_t name_bytes
    cdef Py_ssize_t header_bytes
    cdef Header header
    cdef BytesColumn keys
    cdef BytesColumn values
    cdef BytesColumn names
    cdef BytesColumn header_values
    cdef int[::1] header_ends
    cdef unsigned char[::1] have_headers
    cdef long long[::1] offsets
    cdef long long[::1] timestamps
    cdef int[::1] timestamp_types
    cdef int[::1] epochs

    cpdef int begin(self, int partition, long long end, int wanted) except -1
    cpdef Py_ssize_t receive(self, int milliseconds) except -1
    cpdef size_t first(self) except? 0
    cpdef tuple peek(self)
    cpdef int drop_first(self) except -1
    cpdef int drop(self) except -1
    cpdef Py_ssize_t copy(self, Py_ssize_t most) except -1
    @cython.locals(message=cython.size_t)
    cdef int note_errors(self) except -1
    @cython.locals(message=cython.size_t, size=cython.Py_ssize_t, total=cython.Py_ssize_t)
    cdef Py_ssize_t measure(self, Py_ssize_t most) except -1 nogil
    @cython.locals(headers=cython.size_t, size=cython.Py_ssize_t)
    cdef Py_ssize_t measure_headers(self, size_t message) except -1 nogil
    cdef int allocate(self) except -1
    @cython.locals(message=cython.size_t, millis=cython.longlong)
    cdef int fill(self) except -1 nogil
    @cython.locals(headers=cython.size_t)
    cdef int fill_headers(self, size_t message, Py_ssize_t at) except -1 nogil
