"""The command line as a file, because spark-submit takes no program: `kvformat launcher` prints its path."""

from kvformat.__main__ import main

if __name__ == "__main__":
    main()
