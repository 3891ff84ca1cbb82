"""`python -m elmore.engine.build_kernel`: compiles the LSTM kernel where installing has not, for
want of a C++ compiler. Without one the package is complete all the same: PyTorch does its work.
"""

from elmore.kernel_files import build

if __name__ == "__main__":
    raise SystemExit(0 if build() else "No kernel was built: there is no working C++ compiler.")
