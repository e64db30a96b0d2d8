"""Quick compilation for tests: LLVM's passes take most of it, and no test depends on a program's speed."""

#: For the environment of a process that compiles.
QUICKLY = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"}

#: For one with JAX. Without LLVM's passes, a plain loop for each fusion is less to compile than what the
#: fusion emitters make of it, and one module less than many that are compiled side by side.
JAX_QUICKLY = {
    "XLA_FLAGS": f"{QUICKLY['XLA_FLAGS']} --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
}
