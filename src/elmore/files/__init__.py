"""Files: atomic writing, locks, checksums, stop signals, text and HDF5 files."""
