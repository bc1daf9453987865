"""The format `csv`."""

from kvformat.codecs.csv.format import CsvFormat as CsvFormat
