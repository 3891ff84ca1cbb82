"""`python -m elmore.engine.build_kernel`: compiles the LSTM kernel if there was no C++ compiler
when the package was installed. Without the kernel, PyTorch does the same work.
"""

from elmore.kernel_files import build

if __name__ == "__main__":
    raise SystemExit(0 if build() else "No kernel was built: there is no working C++ compiler.")
