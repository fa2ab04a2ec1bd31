# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tensors of a file, and the mixtures of number formats that files have."""
import collections
import math

from modelfile.types import TYPES

# The rules by which the quantizer of llama.cpp, without an importance matrix, gives some tensors
# more bits: PURE: all matrices are alike. OUTPUT: the output has Q6_K. Q3_K_M: that, and Q4_K or
# Q5_K for some. MORE: that, and Q6_K for values and ffn_down of some layers.
PURE, OUTPUT, Q3_K_M, MORE = range(4)

# The names under which people know files. type: of what no rule names.
Mixture = collections.namedtuple("Mixture", "file_type type rules")

MIXTURES = {
    "F32": Mixture(0, "F32", PURE), "F16": Mixture(1, "F16", PURE),
    "BF16": Mixture(32, "BF16", PURE),
    "Q4_0": Mixture(2, "Q4_0", OUTPUT), "Q4_1": Mixture(3, "Q4_1", OUTPUT),
    "Q5_0": Mixture(8, "Q5_0", OUTPUT), "Q5_1": Mixture(9, "Q5_1", OUTPUT),
    "Q8_0": Mixture(7, "Q8_0", PURE), "Q2_K": Mixture(10, "Q2_K", PURE),
    "Q3_K": Mixture(11, "Q3_K", PURE), "Q4_K": Mixture(14, "Q4_K", PURE),
    "Q5_K": Mixture(16, "Q5_K", PURE), "Q6_K": Mixture(18, "Q6_K", PURE),
    "IQ4_NL": Mixture(25, "IQ4_NL", PURE), "IQ4_XS": Mixture(30, "IQ4_XS", PURE),
    "MXFP4": Mixture(38, "MXFP4", PURE), "Q1_0": Mixture(40, "Q1_0", PURE),
    "IQ2_XXS": Mixture(19, "IQ2_XXS", PURE), "IQ2_XS": Mixture(20, "IQ2_XS", PURE),
    "IQ2_S": Mixture(28, "IQ2_S", PURE), "IQ3_XXS": Mixture(23, "IQ3_XXS", PURE),
    "IQ3_S": Mixture(26, "IQ3_S", PURE),
    "Q3_K_M": Mixture(12, "Q3_K", Q3_K_M),
    "Q4_K_M": Mixture(15, "Q4_K", MORE), "Q5_K_M": Mixture(17, "Q5_K", MORE),
}

# Types that rows take which are no whole number of blocks of 256.
NARROW = {"IQ2_XXS": "IQ4_NL", "IQ2_XS": "IQ4_NL", "IQ2_S": "IQ4_NL", "IQ3_XXS": "IQ4_NL",
          "IQ3_S": "IQ4_NL", "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "IQ4_XS": "IQ4_NL",
          "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
# Deviation of a file's logits.
LOGITS_GAIN = 2.5

# deviation: of random weights; None: all are 1.
Tensor = collections.namedtuple("Tensor", "name type dims deviation")


def choose_type(mixture, shape, name, layer, n_layers):
    is_value, is_out = name == "attn_v", name == "attn_output"
    is_down = name.startswith("ffn_down")
    if mixture.rules == PURE:
        return mixture.type
    # Next to eight experts attention is small.
    if shape.n_experts == 8 and (is_value or name == "attn_k"):
        return "Q8_0"
    if shape.n_experts == 8 and is_out:
        return "Q5_K" if mixture.type in ("Q3_K", "Q4_K") else mixture.type
    if mixture.rules == Q3_K_M:
        if (is_value and layer < 2) or (is_down and layer < n_layers // 16):
            return "Q5_K"
        return "Q4_K" if is_value or is_down or is_out else mixture.type
    # The first and the last eighth of the layers, and every third between them.
    has_more = (layer < n_layers // 8 or layer >= 7 * n_layers // 8 or
                (layer - n_layers // 8) % 3 == 2)
    return "Q6_K" if mixture.rules == MORE and (is_value or is_down) and has_more else mixture.type


def matrix(name, kind, deviation, *dims):
    if dims[0] % TYPES[kind].block_size != 0:
        kind = NARROW.get(kind, "F16")
    return Tensor(name, kind, dims, deviation)


# What a layer has that others may not.
Layer = collections.namedtuple("Layer", "has_window has_kv head_dim n_ff")


def get_layer(shape, layer, n_layers):
    n_ff = shape.n_ff if layer >= shape.n_dense else shape.n_dense_ff
    if shape.shared is None:
        return Layer(False, True, shape.head_dim, n_ff)
    shared = shape.shared
    has_window = (layer + 1) % shared.period != 0
    # A model with fewer layers than the shape's has as many with keys as it can.
    has_kv = layer < min(shape.n_layers - shared.n_layers, n_layers)
    head_dim = shape.head_dim if has_window else shared.full_head_dim or shape.head_dim
    return Layer(has_window, has_kv, head_dim, n_ff if has_kv else n_ff * shared.ff_factor)


def make_layer(shape, mixture, layer, n_layers):
    """Inputs of deviation 1 give outputs of about 1; what layers add to the residual stream does
    not grow with their number."""
    kind_of_layer = get_layer(shape, layer, n_layers)
    head_dim, n_ff = kind_of_layer.head_dim, kind_of_layer.n_ff
    n_q, n_kv = shape.n_heads * head_dim, shape.n_kv_heads * head_dim
    # Files of Gemma 3n have keys and values also where layers don't use them.
    has_keys = kind_of_layer.has_kv or shape.has_streams
    quiet = 1 / math.sqrt(2.0 * n_layers)
    has_experts = shape.n_experts > 0 and layer >= shape.n_dense
    suffix, experts = ("_exps", [shape.n_experts]) if has_experts else ("", [])

    def vector(name, n, deviation=None):
        return Tensor(f"blk.{layer}.{name}", "F32", (n,), deviation)

    def weights(name, gain, *dims):
        kind = "F32"
        if name != "ffn_gate_inp" and not name.startswith(("altup", "laurel")):
            kind = choose_type(mixture, shape, name, layer, n_layers)
        return matrix(f"blk.{layer}.{name}.weight", kind, gain / math.sqrt(dims[0]), *dims)

    if shape.has_pre_norms:
        yield vector("attn_norm.weight", shape.n_embd)
    if shape.latent is not None:
        low = shape.latent
        n_q = shape.n_heads * low.value_dim
        yield weights("attn_q_a", 1, shape.n_embd, low.query_rank)
        yield vector("attn_q_a_norm.weight", low.query_rank)
        yield weights("attn_q_b", 1, low.query_rank,
                      shape.n_heads * (low.n_unrotated + low.n_rotated))
        yield weights("attn_kv_a_mqa", 1, shape.n_embd, low.kv_rank + low.n_rotated)
        yield vector("attn_kv_a_norm.weight", low.kv_rank)
        yield weights("attn_k_b", 0.5, low.n_unrotated, low.kv_rank, shape.n_heads)
        yield weights("attn_v_b", 1, low.kv_rank, low.value_dim, shape.n_heads)
    else:
        yield weights("attn_q", 1, shape.n_embd, n_q)
        if has_keys:
            yield weights("attn_k", 1, shape.n_embd, n_kv)
            yield weights("attn_v", 1, shape.n_embd, n_kv)
    if shape.has_qkv_biases:
        yield vector("attn_q.bias", n_q, 0.1)
        yield vector("attn_k.bias", n_kv, 0.1)
        yield vector("attn_v.bias", n_kv, 0.1)
    if shape.has_qk_norms:
        is_wide = shape.has_wide_head_norms
        yield vector("attn_q_norm.weight", n_q if is_wide else head_dim)
        if has_keys:
            yield vector("attn_k_norm.weight", n_kv if is_wide else head_dim)
    if shape.has_sinks:
        yield vector("attn_sinks.weight", shape.n_heads, 1.0)
    yield weights("attn_output", quiet, n_q, shape.n_embd)
    if shape.has_biases:
        yield vector("attn_output.bias", shape.n_embd, 0.1 * quiet)
    if shape.has_post_norms:
        yield vector("post_attention_norm.weight", shape.n_embd)
    if shape.has_pre_norms and not shape.has_parallel_ffn:
        yield vector(shape.ffn_norm + ".weight", shape.n_embd)
    if has_experts:
        yield weights("ffn_gate_inp", 1, shape.n_embd, shape.n_experts)
        for part, n_in, n_out, gain in (("gate", shape.n_embd, n_ff, 1),
                                        ("up", shape.n_embd, n_ff, 1),
                                        ("down", n_ff, shape.n_embd, quiet)):
            if shape.n_shared_experts > 0:
                yield weights(f"ffn_{part}_shexp", gain, n_in * shape.n_shared_experts
                              if part == "down" else n_in, n_out if part == "down"
                              else n_out * shape.n_shared_experts)
    if has_experts and shape.has_biases:
        yield vector("ffn_gate_inp.bias", shape.n_experts, 0.1)
        for name, n, gain in (("gate", n_ff, 0.1), ("up", n_ff, 0.1),
                              ("down", shape.n_embd, 0.1 * quiet)):
            yield Tensor(f"blk.{layer}.ffn_{name}_exps.bias", "F32", (n, shape.n_experts), gain)
    if has_experts and shape.n_shared_experts > 0:
        yield vector("exp_probs_b.bias", shape.n_experts, 0.1)
    if shape.has_fused_gate:
        yield weights("ffn_up", 1, shape.n_embd, 2 * n_ff)
    else:
        yield weights("ffn_gate" + suffix, 1, shape.n_embd, n_ff, *experts)
        yield weights("ffn_up" + suffix, 1, shape.n_embd, n_ff, *experts)
    yield weights("ffn_down" + suffix, quiet, n_ff, shape.n_embd, *experts)
    if shape.has_post_norms:
        yield vector("post_ffw_norm.weight", shape.n_embd)
    if shape.has_streams:
        yield vector("altup_router_norm.weight", shape.n_embd)
        yield weights("altup_router", shape.n_embd / 4, shape.n_embd, 4)
        yield weights("altup_predict_coef", 0.2, 4, 16)
        yield weights("altup_correct_coef", 0.2, 4, 4)
        yield vector("altup_correct_scale.weight", shape.n_embd)
        yield weights("laurel_l", 1, shape.n_embd, 64)
        yield weights("laurel_r", 1, 64, shape.n_embd)
        yield vector("laurel_post_norm.weight", shape.n_embd)
    if shape.n_layer_embd > 0:
        yield weights("inp_gate", 1, shape.n_embd, shape.n_layer_embd)
        yield weights("proj", 1, shape.n_layer_embd, shape.n_embd)
        yield vector("post_norm.weight", shape.n_embd)
    if shape.has_layer_scales:
        yield vector("layer_output_scale.weight", 1)


def make_tensors(shape, mixture, n_layers):
    """All tensors in the order of a file."""
    deviation = LOGITS_GAIN / math.sqrt(shape.n_embd)
    output = mixture.type if mixture.rules == PURE else "Q6_K"
    if shape.has_streams:
        for name in "altup_proj", "altup_unembd_proj":
            yield Tensor(name + ".weight", "F16", (shape.n_embd, shape.n_embd, 3),
                         1 / math.sqrt(shape.n_embd))
    if shape.n_layer_embd > 0:
        n = shape.n_layer_embd * n_layers
        yield matrix("per_layer_token_embd.weight", mixture.type, 1 / math.sqrt(shape.n_layer_embd), n,
                     shape.n_vocab)
        yield Tensor("per_layer_model_proj.weight", "BF16", (shape.n_embd, n), 1.0)
        yield Tensor("per_layer_proj_norm.weight", "F32", (shape.n_layer_embd,), None)
    if shape.shared is not None and shape.shared.full_head_dim > 0:
        yield Tensor("rope_freqs.weight", "F32", (shape.shared.full_head_dim // 2,), None)
    yield matrix("token_embd.weight", output if shape.is_tied else mixture.type,
                 deviation if shape.is_tied else 1.0, shape.n_embd, shape.n_vocab)
    for layer in range(n_layers):
        yield from make_layer(shape, mixture, layer, n_layers)
    yield Tensor("output_norm.weight", "F32", (shape.n_embd,), None)
    if not shape.is_tied:
        yield matrix("output.weight", output, deviation, shape.n_embd, shape.n_vocab)
