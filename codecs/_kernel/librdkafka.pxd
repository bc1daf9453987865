# The C types of librdkafka.py, and all access to the memory of librdkafka. Its messages are at addresses, which are 0 or
# those of a message that was not destroyed. Each function that copies checks the bounds of its destination first.
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, strlen


# rd_kafka_message_t of rdkafka.h, a public structure with the same members since librdkafka 0.9.
cdef struct Message:
    int err
    void* topic
    int32_t partition
    const void* payload
    size_t size
    const void* key
    size_t key_size
    int64_t offset
    void* own


ctypedef Py_ssize_t (*ConsumeBatchQueue)(void*, int, Message**, size_t) noexcept nogil
ctypedef void (*MessageDestroy)(Message*) noexcept nogil
ctypedef int64_t (*MessageTimestamp)(const Message*, int*) noexcept nogil
ctypedef int (*MessageHeaders)(const Message*, void**) noexcept nogil
ctypedef int (*HeaderGetAll)(const void*, size_t, const char**, const void**, size_t*) noexcept nogil
ctypedef int32_t (*MessageLeaderEpoch)(const Message*) noexcept nogil


@cython.final
cdef class Library:
    cdef size_t consume_batch_queue
    cdef size_t message_destroy
    cdef size_t message_timestamp
    cdef size_t message_headers
    cdef size_t header_get_all
    cdef size_t message_leader_epoch


@cython.final
cdef class Header:
    cdef size_t name
    cdef Py_ssize_t name_size
    cdef size_t value
    cdef Py_ssize_t size


# Takes at most `count` messages from a queue, and puts their addresses to `addresses[start:]`. Returns how many.
cdef inline Py_ssize_t consume(
    Library library,
    size_t queue,
    int milliseconds,
    unsigned long long[::1] addresses,
    Py_ssize_t start,
    Py_ssize_t count,
) noexcept nogil:
    cdef Py_ssize_t taken
    if start < 0 or count <= 0 or addresses.shape[0] - start < count or queue == 0:
        return 0
    with cython.boundscheck(False):
        taken = (<ConsumeBatchQueue><void*>library.consume_batch_queue)(
            <void*>queue, milliseconds, <Message**>&addresses[start], <size_t>count
        )
    return taken if taken > 0 else 0


cdef inline void destroy(Library library, size_t message) noexcept nogil:
    if message:
        (<MessageDestroy><void*>library.message_destroy)(<Message*>message)


cdef inline int error_of(size_t message) noexcept nogil:
    return (<Message*>message).err if message else 0


cdef inline long long offset_of(size_t message) noexcept nogil:
    return (<Message*>message).offset if message else -1


cdef inline int partition_of(size_t message) noexcept nogil:
    return (<Message*>message).partition if message else -1


cdef inline size_t topic_of(size_t message) noexcept nogil:
    return <size_t>(<Message*>message).topic if message else 0


# Returns the number of bytes of a message's key or payload, -1 if it is null.
cdef inline Py_ssize_t size_of(size_t message, bint key) noexcept nogil:
    cdef Message* m = <Message*>message
    if m == NULL or (m.key if key else m.payload) == NULL:
        return -1
    return <Py_ssize_t>(m.key_size if key else m.size)


# Copies a message's key or payload to out[at:]. Returns its size, 0 if it is null.
cdef inline Py_ssize_t copy_part(size_t message, bint key, unsigned char[::1] out, Py_ssize_t at) except -1 nogil:
    cdef Py_ssize_t size = size_of(message, key)
    cdef Message* m = <Message*>message
    if size <= 0:
        return 0
    return copy_bytes(<size_t>(m.key if key else m.payload), size, out, at)


# Copies `size` bytes from an address to out[at:]. Returns the size.
cdef inline Py_ssize_t copy_bytes(size_t address, Py_ssize_t size, unsigned char[::1] out, Py_ssize_t at) except -1 nogil:
    if size < 0 or at < 0 or out.shape[0] - at < size or (address == 0 and size):
        return refuse()
    with cython.boundscheck(False):
        if size:
            memcpy(&out[at], <void*>address, size)
    return size


cdef Py_ssize_t refuse() except -1 nogil


# Returns the timestamp of a message in milliseconds, and its type in kind[at]: 0 none, 1 creation, 2 the broker's.
cdef inline long long timestamp_of(Library library, size_t message, int[::1] kind, Py_ssize_t at) except? -1 nogil:
    if message == 0:
        return -1
    return (<MessageTimestamp><void*>library.message_timestamp)(<Message*>message, &kind[at])


cdef inline int epoch_of(Library library, size_t message) noexcept nogil:
    return (<MessageLeaderEpoch><void*>library.message_leader_epoch)(<Message*>message) if message else -1


# Returns the address of a message's headers, 0 if it has none. They live as long as the message.
cdef inline size_t headers_of(Library library, size_t message) noexcept nogil:
    cdef void* headers = NULL
    if message == 0 or (<MessageHeaders><void*>library.message_headers)(<Message*>message, &headers) != 0:
        return 0
    return <size_t>headers


# Reads the header with an index. Returns whether there is one. A null value has the size -1.
cdef inline bint next_header(Library library, size_t headers, Py_ssize_t index, Header header) noexcept nogil:
    cdef const char* name = NULL
    cdef const void* value = NULL
    cdef size_t size = 0
    if headers == 0 or index < 0:
        return False
    if (<HeaderGetAll><void*>library.header_get_all)(<void*>headers, <size_t>index, &name, &value, &size) != 0:
        return False
    header.name = <size_t>name
    header.name_size = 0 if name == NULL else <Py_ssize_t>strlen(name)
    header.value = <size_t>value
    header.size = -1 if value == NULL else <Py_ssize_t>size
    return True
