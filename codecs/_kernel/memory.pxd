# The C types of memory.py, and all raw memory access of the kernel. Each function checks both bounds first.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp, memcpy

# Names of the bytes that the kernel compares with. They are C constants.
cdef enum:
    TAB = 9
    NEWLINE = 10
    RETURN = 13
    SPACE = 32
    QUOTE = 34
    NUMBER_SIGN = 35
    PLUS = 43
    COMMA = 44
    MINUS = 45
    POINT = 46
    DIGIT_0 = 48
    DIGIT_1 = 49
    DIGIT_9 = 57
    COLON = 58
    EQUALS = 61
    QUESTION_MARK = 63
    UPPER_E = 69
    UPPER_I = 73
    UPPER_N = 78
    UPPER_Z = 90
    LEFT_BRACKET = 91
    BACKSLASH = 92
    RIGHT_BRACKET = 93
    LOWER_E = 101
    LOWER_F = 102
    LOWER_N = 110
    LOWER_R = 114
    LOWER_T = 116
    LOWER_U = 117
    LEFT_BRACE = 123
    RIGHT_BRACE = 125


# The index of the lowest byte of a word that is not 0 in a word that is 0 or 128 in each byte, and not 0 in all.
cdef extern from *:
    """
    #ifdef __GNUC__
    #define lowest_byte(marks) (__builtin_ctzll(marks) >> 3)
    #else
    #define lowest_byte(marks) ((int)((((((marks) - 1) & 0x0101010101010101ULL) * 0x0101010101010101ULL) >> 56) - 1))
    #endif
    """
    int lowest_byte(unsigned long long marks) noexcept nogil


# Returns the byte at an offset, or 0 if the offset is negative or not before `end`. The caller guarantees that `end` is
# not beyond the data (Reader.start_message).
cdef inline int byte(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    with cython.boundscheck(False):
        return data[at] if <size_t>at < <size_t>end else 0


# Returns the eight bytes from an offset on as a little-endian integer, with zeros after the data.
cdef inline unsigned long long word(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long whole, rest = 0
    cdef Py_ssize_t left = data.shape[0] - at
    with cython.boundscheck(False):
        if at < 0 or left <= 0:
            return 0
        if left < 8:
            memcpy(&rest, &data[at], left)
            return rest
        memcpy(&whole, &data[at], 8)  # a constant size, so the compiler makes it one instruction
        return whole


# Returns whether the character at an offset of a message is the one with these bytes, a little-endian word.
cdef inline bint is_character(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, unsigned long long character, int size
) noexcept nogil:
    with cython.boundscheck(False):
        if at < 0 or end > data.shape[0] or end - at < size or size < 1:
            return False
        return data[at] == character & 255 and (
            size == 1 or (word(data, at) ^ character) << (64 - 8 * size) == 0
        )


# Appends data[start:stop]. A short part is copied with the bytes after it: copying 32 bytes needs no call. They go
# through registers, because `data` may be that of `out`, and then the 32 bytes may overlap.
cdef inline int append(Bytes out, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop) except -1 nogil:
    cdef Py_ssize_t count = stop - start
    cdef unsigned char[32] copied
    with cython.boundscheck(False):
        if start < 0 or count < 0 or stop > data.shape[0]:
            return out.refuse()
        if out.view.shape[0] - out.size < count + 32:
            out.grow(count + 32)
        if out.size < 0 or out.view.shape[0] - out.size < count + 32:
            return out.refuse()
        if count <= 32 and data.shape[0] - start >= 32:
            memcpy(copied, &data[start], 32)
            memcpy(&out.view[out.size], copied, 32)
        elif count:
            memcpy(&out.view[out.size], &data[start], count)
        out.size += count
        return 0


# Appends Python bytes.
cdef inline int append_bytes(Bytes out, bytes text) except -1:
    cdef Py_ssize_t count = len(text)
    if out.view.shape[0] - out.size < count:
        out.grow(count)
    if out.size < 0 or out.view.shape[0] - out.size < count:
        return out.refuse()
    with cython.boundscheck(False):
        if count:
            memcpy(&out.view[out.size], PyBytes_AS_STRING(text), count)
    out.size += count
    return 0


# Appends the lowest `size` bytes of a 64-bit integer, little-endian.
cdef inline int append_integer(Bytes out, long long value, int size) except -1 nogil:
    if out.size < 0 or out.view.shape[0] - out.size < 8:
        out.grow(8)
    if out.size < 0 or out.view.shape[0] - out.size < 8 or size < 0 or size > 8:
        return out.refuse()
    with cython.boundscheck(False):
        memcpy(&out.view[out.size], &value, 8)
    out.size += size
    return 0


# Appends a code point as UTF-8.
cdef inline int append_character(Bytes out, int code) except -1 nogil:
    cdef unsigned char* to
    if out.size < 0 or out.view.shape[0] - out.size < 4:
        out.grow(4)
    if out.size < 0 or out.view.shape[0] - out.size < 4:
        return out.refuse()
    with cython.boundscheck(False):
        to = &out.view[out.size]
    if code < 0x80:
        to[0] = code
        out.size += 1
    elif code < 0x800:
        to[0] = 0xC0 | code >> 6
        to[1] = 0x80 | code & 63
        out.size += 2
    elif code < 0x10000:
        to[0] = 0xE0 | code >> 12
        to[1] = 0x80 | code >> 6 & 63
        to[2] = 0x80 | code & 63
        out.size += 3
    else:
        to[0] = 0xF0 | code >> 18
        to[1] = 0x80 | code >> 12 & 63
        to[2] = 0x80 | code >> 6 & 63
        to[3] = 0x80 | code & 63
        out.size += 4
    return 0


# Returns data[start:stop] as Python bytes.
cdef inline bytes part(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
    with cython.boundscheck(False):
        if start < 0 or stop <= start or stop > data.shape[0]:
            return b""
        return PyBytes_FromStringAndSize(<const char*>&data[start], stop - start)


# Returns whether `count` bytes are the same at the offsets `a` and `b`.
cdef inline bint same(const unsigned char[::1] data, Py_ssize_t a, Py_ssize_t b, Py_ssize_t count) noexcept nogil:
    with cython.boundscheck(False):
        if a < 0 or b < 0 or count <= 0 or data.shape[0] - a < count or data.shape[0] - b < count:
            return False
        return memcmp(&data[a], &data[b], count) == 0


# Returns how many bytes are the same at the offsets `a` and `b`, at most `count`.
cdef inline Py_ssize_t equal(const unsigned char[::1] data, Py_ssize_t a, Py_ssize_t b, Py_ssize_t count) noexcept nogil:
    cdef unsigned long long left, right
    cdef Py_ssize_t k = 0
    with cython.boundscheck(False):
        if a < 0 or b < 0 or count <= 0 or data.shape[0] - a < count or data.shape[0] - b < count:
            return 0
        while k + 8 <= count:
            memcpy(&left, &data[a + k], 8)
            memcpy(&right, &data[b + k], 8)
            if left != right:
                break
            k += 8
        while k < count and data[a + k] == data[b + k]:
            k += 1
        return k


# Returns whether the message, which ends at `end`, has texts[start : start + count] at an offset. `texts` must end with
# eight more bytes.
cdef inline bint matches(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end,
    const unsigned char[::1] texts, Py_ssize_t start, Py_ssize_t count,
) noexcept nogil:
    cdef unsigned long long a, b
    cdef Py_ssize_t k = 0
    with cython.boundscheck(False):
        if at < 0 or start < 0 or count <= 0 or end - at < count or end > data.shape[0] or texts.shape[0] - start < count + 8:
            return False
        if count > 64:
            return memcmp(&data[at], &texts[start], count) == 0
        if count < 8:
            if data.shape[0] - at < 8:
                return memcmp(&data[at], &texts[start], count) == 0
            memcpy(&a, &data[at], 8)
            memcpy(&b, &texts[start], 8)
            return (a ^ b) << (64 - 8 * count) == 0
        while k + 8 <= count:
            memcpy(&a, &data[at + k], 8)
            memcpy(&b, &texts[start + k], 8)
            if a != b:
                return False
            k += 8
        memcpy(&a, &data[at + count - 8], 8)
        memcpy(&b, &texts[start + count - 8], 8)
        return a == b


# Returns the bits of a double as a signed integer.
cdef inline long long bits_of(double value) noexcept nogil:
    cdef long long bits
    memcpy(&bits, &value, 8)
    return bits


# Rounds a double to 32 bits. The value must be in the range of a float.
cdef inline double single(double value) noexcept nogil:
    return <double><float>value


# Returns the bits of a float. Rounds the value to 32 bits first.
cdef inline long long bits_of_single(double value) noexcept nogil:
    cdef float narrow = <float>value
    cdef unsigned int bits
    memcpy(&bits, &narrow, 4)
    return bits


# Returns the float nearest a 64-bit integer. A double between them would be rounded twice.
cdef inline double nearest_single(long long value) noexcept nogil:
    return <double><float>value


# Returns the float whose bits are the low 32 bits of a word.
cdef inline double single_of_bits(unsigned long long word) noexcept nogil:
    cdef unsigned int bits = <unsigned int>word
    cdef float value
    memcpy(&value, &bits, 4)
    return <double>value


# Parses eight bytes, a little-endian word, as digits. Returns -1 if they are not digits.
cdef inline long long eight_digits(unsigned long long characters) noexcept nogil:
    cdef unsigned long long digits = characters ^ 0x3030303030303030ULL
    if (digits + 0x7676767676767676ULL | digits) & 0x8080808080808080ULL:  # a byte above 9
        return -1
    digits = digits * 10 + (digits >> 8)  # pairs of digits are in every second byte
    # the factors add up the pairs in the high half of each product
    return (
        (digits & 0x000000FF000000FFULL) * 0x000F424000000064ULL
        + (digits >> 16 & 0x000000FF000000FFULL) * 0x0000271000000001ULL
    ) >> 32


# Parses the first 1 to 8 bytes of a little-endian word as digits. Returns -1 if they are not digits.
cdef inline long long few_digits(unsigned long long characters, int size) noexcept nogil:
    return eight_digits(characters << (64 - 8 * size) | 0x3030303030303030ULL >> (8 * size - 8) >> 8)


# Returns the offset of the next token: skips blanks.
cdef inline Py_ssize_t token(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef int c = byte(data, at, end)
    while c <= SPACE and (c == SPACE or c == NEWLINE or c == RETURN or c == TAB):
        at += 1
        c = byte(data, at, end)
    return at


# Returns the offset of the next quote or backslash, or an offset not before `end` if there is none. Compares eight bytes
# at a time: the lowest high bit of `x - 1 & ~x` is in the lowest byte of x that is zero.
cdef inline Py_ssize_t special(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long chunk, quotes, slashes, marks
    cdef unsigned long long ones = 0x0101010101010101ULL
    cdef unsigned long long highs = 0x8080808080808080ULL
    cdef Py_ssize_t last = (end if end <= data.shape[0] else data.shape[0]) - 8
    with cython.boundscheck(False):
        if at < 0:
            return end
        while at <= last:
            memcpy(&chunk, &data[at], 8)
            quotes = chunk ^ 0x2222222222222222ULL
            slashes = chunk ^ 0x5C5C5C5C5C5C5C5CULL
            marks = ((quotes - ones) & ~quotes | (slashes - ones) & ~slashes) & highs
            if marks:
                return at + lowest_byte(marks)
            at += 8
        while at < end and byte(data, at, end) != QUOTE and byte(data, at, end) != BACKSLASH:
            at += 1
        return at


# Sets the high bit of each byte of a word that is in `a` or `b` (a byte repeated eight times). Bytes after the first of
# them may be wrong.
cdef inline unsigned long long marks_of_two(
    unsigned long long chunk, unsigned long long a, unsigned long long b
) noexcept nogil:
    cdef unsigned long long first = chunk ^ a, second = chunk ^ b
    return (
        (first - 0x0101010101010101ULL) & ~first | (second - 0x0101010101010101ULL) & ~second
    ) & 0x8080808080808080ULL


# Sets the high bit of each byte of a word that is below 14. Bytes after the first of them may be wrong.
cdef inline unsigned long long marks_below_14(unsigned long long chunk) noexcept nogil:
    return (chunk - 14 * 0x0101010101010101ULL) & ~chunk & 0x8080808080808080ULL


# Returns the offset of the next byte below 14, or in `a` or `b` (a byte repeated eight times); else one not before `end`.
cdef inline Py_ssize_t column_end(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, unsigned long long a, unsigned long long b
) noexcept nogil:
    cdef unsigned long long chunk, marks
    cdef Py_ssize_t last = data.shape[0] - 8  # words may extend past `end`
    with cython.boundscheck(False):
        if at < 0 or end > data.shape[0]:
            return end
        while at < end and at <= last:
            memcpy(&chunk, &data[at], 8)
            marks = marks_of_two(chunk, a, b) | marks_below_14(chunk)
            if marks:
                return at + lowest_byte(marks)
            at += 8
        while at < end and data[at] >= 14 and data[at] != a & 255 and data[at] != b & 255:
            at += 1
        return at


# Returns the offset of the next byte that is in `a` or `b` (a byte repeated eight times), or one not before `end`.
cdef inline Py_ssize_t next_of_two(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, unsigned long long a, unsigned long long b
) noexcept nogil:
    cdef unsigned long long chunk, marks
    cdef Py_ssize_t last = data.shape[0] - 8  # words may extend past `end`
    with cython.boundscheck(False):
        if at < 0 or end > data.shape[0]:
            return end
        while at < end and at <= last:
            memcpy(&chunk, &data[at], 8)
            marks = marks_of_two(chunk, a, b)
            if marks:
                return at + lowest_byte(marks)
            at += 8
        while at < end and data[at] != a & 255 and data[at] != b & 255:
            at += 1
        return at


# Returns the offset of the first byte that is not ASCII, or `end`. The last block overlaps the one before, so that most
# texts end without a loop over single bytes.
cdef inline Py_ssize_t ascii_end(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long a, b, c, d
    cdef Py_ssize_t last, begin = at
    if end > data.shape[0]:
        end = data.shape[0]
    last = end - 32
    with cython.boundscheck(False):
        if at < 0:
            return at
        while begin <= last:
            memcpy(&a, &data[at], 8)
            memcpy(&b, &data[at + 8], 8)
            memcpy(&c, &data[at + 16], 8)
            memcpy(&d, &data[at + 24], 8)
            if (a | b | c | d) & 0x8080808080808080ULL:
                break
            if at == last:
                return end
            at = min(at + 32, last)
        last = end - 8
        while begin <= last:
            memcpy(&a, &data[at], 8)
            if a & 0x8080808080808080ULL:
                break
            if at == last:
                return end
            at = min(at + 8, last)
        while at < end and data[at] < 0x80:
            at += 1
        return at


# Returns the end of the valid UTF-8 from an offset on, as far as whole blocks of 64 bytes show it: the start of a
# character up to which all bytes are valid. `at` is the start of a character after at least three bytes of valid UTF-8.
# Each byte is compared with the three before it, and nothing branches, so the compiler makes vectors of the loop.
cdef inline Py_ssize_t utf8_blocks(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    cdef const unsigned char* p
    cdef unsigned char bad, c, first, second, third  # the bytes one, two and three before c
    cdef int i
    with cython.boundscheck(False):
        if at < 3 or stop > data.shape[0]:
            return at
        while stop - at >= 64:
            p = &data[at]
            bad = 0
            for i in range(64):
                c = p[i]
                first = p[i - 1]
                second = p[i - 2]
                third = p[i - 3]
                bad |= ((c & 0xC0) == 0x80) != ((first >= 0xC0) | (second >= 0xE0) | (third >= 0xF0))
                bad |= ((first == 0xE0) & (c < 0xA0)) | ((first == 0xED) & (c >= 0xA0))
                bad |= ((first == 0xF0) & (c < 0x90)) | ((first == 0xF4) & (c >= 0x90))
                bad |= ((c & 0xFE) == 0xC0) | (c >= 0xF5)
            if bad:
                break
            at += 64
        if data[at - 1] >= 0xC0:  # the character that the last block begins is not complete
            return at - 1
        if data[at - 2] >= 0xE0:
            return at - 2
        return at - 3 if data[at - 3] >= 0xF0 else at


cdef unsigned long long MIX


@cython.final
cdef class Bytes:
    cdef unsigned char[::1] view
    cdef Py_ssize_t size

    cdef int grow(self, Py_ssize_t count) except -1 nogil
    cdef int refuse(self) except -1 nogil
    cdef int put(self, int byte) except -1 nogil
    cdef int number(self, Py_ssize_t value) except -1


@cython.final
cdef class Hashes:
    cdef unsigned long long[::1] view
    cdef Py_ssize_t size

    cdef int grow(self) except -1 nogil
    cdef int push(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop) except -1 nogil
    cdef bint repeated(self, Py_ssize_t first) except -1
