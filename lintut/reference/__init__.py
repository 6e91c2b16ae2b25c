"""NumPy references: one module a mechanism, each form of it a function.

    parallel    the explicit N×N weights: the definition
    recurrent   one token at a time: the state
    chunkwise   a chunk at a time: the two together

Arrays are (…, N, d); leading axes broadcast.  S is (…, d, d_v), o = Sᵀq, and
position t sees itself.  Results have the dtype of the inputs, which are never
changed.  Bad input is a ValueError that names the argument.

Every pair compared with softmax, and the pairs chosen:
    softmax          all pairs; also `blocked`, the same a tile at a time
    sliding_window   the w nearest keys; also `banded`, in O(N w)
    longformer       a window and a few global tokens; `banded`
    bigbird          window, global and random blocks; `blocked`
    linformer        N keys compressed to m

The past summed in a state:
    linear           φ(q)·φ(k) for exp(q·k); φ from `feature_maps`
    performer        φ random, so that the kernel is exp(q·k) on average
    retention        a fixed decay
    gla              a decay a channel, given by the input
    delta            what is written is the error of what is read
    gated_delta      decay, then the delta rule

Both:
    hybrid           window heads and linear heads
"""
