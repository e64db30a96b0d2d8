"""jupyter_kernel_test, with the kernel at the bridge."""
