"""Imported first by the benches: --help prints what the script says of itself, before anything is asked for that the machine may lack. Standard library only."""
import sys

if {"-h", "--help"} & set(sys.argv[1:]):
    print(sys.modules["__main__"].__doc__.strip())
    sys.exit(0)
