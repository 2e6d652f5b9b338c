"""What kernels of several systems use: options of the compiler, registers, losses."""
