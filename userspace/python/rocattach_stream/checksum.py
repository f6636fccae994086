"""CRC-32C (Castagnoli), which both checksums of a frame are."""

try:  # Debian: python3-crc32c
    from crc32c import crc32c as _native
except ImportError:
    _native = None


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            # The polynomial, with its lowest power in the highest bit.
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c_in_python(data):
    """Some 10 MB/s."""
    table = _TABLE
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc32c(data):
    """By the module `crc32c` where it is installed."""
    return _native(data) if _native else crc32c_in_python(data)
