"""Speed tables: `python -m lintut.bench cpu|gpu [--quick] [--out FILE]`.

`cpu` times every form of every mechanism of `lintut.reference` on one thread,
`gpu` the kernels.  Both print a table and can record it; `record` says on
what machine, with which versions, when and by which command.
"""
