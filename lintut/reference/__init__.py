"""NumPy references: one module a mechanism, each form of it a function.

    parallel    the explicit N×N weights: the definition
    recurrent   one token at a time: the state
    chunkwise   a chunk at a time: the two together

Arrays are (…, N, d); leading axes broadcast.  S is (…, d, d_v), o = Sᵀq, and
position t sees itself.  Results have the dtype of the inputs, which are never
changed.
"""
