# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shapes of well-known models and the mixtures of number formats that their files have."""
import collections
import dataclasses
import math

from modelfile.types import TYPES


@dataclasses.dataclass
class Shape:
    like: str                # the model whose shape it is
    architecture: str
    n_layers: int
    n_embd: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    n_ff: int                # of one expert where there are experts
    n_vocab: int
    n_ctx: int
    rope_base: float
    eps: float
    n_experts: int = 0
    n_used_experts: int = 0
    is_tied: bool = False    # no output.weight
    has_qkv_biases: bool = False
    has_qk_norms: bool = False
    is_bpe: bool = False     # a byte-level vocabulary, else SentencePiece's
    has_pre_norms: bool = True
    has_post_norms: bool = False
    has_wide_head_norms: bool = False   # with has_qk_norms: of all heads at once
    has_fused_gate: bool = False
    has_centered_norms: bool = False
    has_parallel_ffn: bool = False      # no norm of its own before the feed-forward network
    has_sinks: bool = False
    has_biases: bool = False            # of the attention's output and of experts
    ffn_norm: str = "ffn_norm"
    n_rotated: int = 0       # values of a head; 0: all
    keys: dict = dataclasses.field(default_factory=dict)   # more of the architecture's


SHAPES = {
    "160m": Shape("Llama 160M", "llama", 12, 768, 12, 12, 64, 3072, 32000, 2048, 1e4, 1e-6),
    "0.5b": Shape("Qwen2.5 0.5B", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6,
                  is_tied=True, has_qkv_biases=True, is_bpe=True),
    "1.1b": Shape("TinyLlama 1.1B", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 40960, 1e4, 1e-5),
    "1.3b-mha": Shape("a multi-head 1.3B", "llama", 24, 2048, 32, 32, 64, 5504, 32256, 16384, 1e5,
                      1e-6),
    "1.7b": Shape("Qwen3 1.7B", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 40960, 1e6, 1e-6,
                  is_tied=True, has_qk_norms=True, is_bpe=True),
    "7b": Shape("Llama 2 7B", "llama", 32, 4096, 32, 32, 128, 11008, 32000, 16384, 1e4, 1e-5),
    "moe": Shape("a small Mixtral, 1.2B with 8 experts of which 2 are used", "llama", 16, 1024, 16,
                 4, 64, 2816, 32000, 16384, 1e6, 1e-5, n_experts=8, n_used_experts=2),
    "30b-a3b": Shape("Qwen3 30B A3B, 128 experts of which 8 are used", "qwen3moe", 48, 2048, 32, 4,
                     128, 768, 151936, 40960, 1e6, 1e-6, n_experts=128, n_used_experts=8,
                     has_qk_norms=True, is_bpe=True),
    "5b-a1b": Shape("Qwen3 30B A3B, a sixth of it", "qwen3moe", 8, 2048, 32, 4, 128, 768, 151936,
                    40960, 1e6, 1e-6, n_experts=128, n_used_experts=8, has_qk_norms=True,
                    is_bpe=True),
    "granite-2b": Shape("Granite 3.3 2B", "granite", 40, 2048, 32, 8, 64, 8192, 49159, 131072, 1e7,
                        1e-5, is_tied=True, is_bpe=True,
                        keys={"embedding_scale": 12.0, "residual_scale": 0.22,
                              "attention.scale": 0.015625, "logit_scale": 8.0}),
    "exaone4-1.2b": Shape("EXAONE 4.0 1.2B", "exaone4", 30, 2048, 32, 8, 64, 4096, 102400, 65536,
                          1e6, 1e-5, is_tied=True, is_bpe=True, has_qk_norms=True,
                          has_pre_norms=False, has_post_norms=True),
    "glm4-9b": Shape("GLM 4 9B 0414", "glm4", 40, 4096, 32, 2, 128, 13696, 151552, 32768, 1e4, 1e-5,
                     is_bpe=True, has_qkv_biases=True, has_post_norms=True, has_fused_gate=True,
                     n_rotated=64),
    "minicpm4-0.5b": Shape("MiniCPM4 0.5B", "minicpm", 24, 1024, 16, 2, 64, 4096, 73448, 32768, 1e4,
                           1e-5, is_tied=True,
                           keys={"embedding_scale": 12.0, "residual_scale": 0.28577,
                                 "logit_scale": 4.0}),
    "olmo2-1b": Shape("OLMo 2 1B", "olmo2", 16, 2048, 16, 16, 128, 8192, 100352, 4096, 5e5, 1e-6,
                      is_bpe=True, has_qk_norms=True, has_wide_head_norms=True, has_pre_norms=False,
                      has_post_norms=True),
    "qwen3vl-4b": Shape("the text of Qwen3 VL 4B", "qwen3vl", 36, 2560, 32, 8, 128, 9728, 151936,
                        262144, 5e6, 1e-6, is_tied=True, has_qk_norms=True, is_bpe=True,
                        keys={"rope.dimension_sections": [24, 20, 20, 0]}),
    "command-r7b": Shape("Command R7B", "cohere2", 32, 4096, 32, 8, 128, 14336, 256000, 131072, 5e4,
                         1e-5, is_tied=True, is_bpe=True, has_centered_norms=True,
                         has_parallel_ffn=True,
                         keys={"attention.sliding_window": 4096, "logit_scale": 0.25}),
    "gpt-oss-20b": Shape("gpt-oss 20B, 32 experts of which 4 are used", "gpt-oss", 24, 2880, 64, 8,
                         64, 2880, 201088, 131072, 1.5e5, 1e-5, n_experts=32, n_used_experts=4,
                         is_bpe=True, has_qkv_biases=True, has_sinks=True, has_biases=True,
                         ffn_norm="post_attention_norm",
                         keys={"attention.sliding_window": 128, "rope.scaling.type": "yarn",
                               "rope.scaling.factor": 32.0,
                               "rope.scaling.original_context_length": 4096}),
    "tiny-llama": Shape("nothing: for tests", "llama", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e4,
                        1e-5),
    "tiny-qwen2": Shape("nothing: for tests", "qwen2", 2, 384, 6, 2, 64, 512, 1024, 2048, 1e6, 1e-6,
                        is_tied=True, has_qkv_biases=True, is_bpe=True),
    "tiny-qwen3": Shape("nothing: for tests", "qwen3", 2, 256, 4, 2, 128, 512, 1024, 2048, 1e6,
                        1e-6, is_tied=True, has_qk_norms=True, is_bpe=True),
    "tiny-moe": Shape("nothing: for tests", "llama", 2, 256, 4, 2, 64, 256, 1024, 2048, 1e6, 1e-5,
                      n_experts=8, n_used_experts=2),
    "tiny-qwen3moe": Shape("nothing: for tests", "qwen3moe", 2, 256, 4, 2, 128, 256, 1024, 2048,
                           1e6, 1e-6, n_experts=16, n_used_experts=4, has_qk_norms=True,
                           is_bpe=True),
    "tiny-granite": Shape("nothing: for tests", "granite", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e7,
                          1e-5, is_tied=True, is_bpe=True,
                          keys={"embedding_scale": 12.0, "residual_scale": 0.22,
                                "attention.scale": 0.015625, "logit_scale": 8.0}),
    "tiny-exaone4": Shape("nothing: for tests", "exaone4", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e6,
                          1e-5, is_bpe=True, has_qk_norms=True, has_pre_norms=False,
                          has_post_norms=True),
    "tiny-glm4": Shape("nothing: for tests", "glm4", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e4, 1e-5,
                       is_bpe=True, has_qkv_biases=True, has_post_norms=True, has_fused_gate=True,
                       n_rotated=32),
    "tiny-cohere2": Shape("nothing: for tests", "cohere2", 4, 256, 4, 2, 64, 512, 1024, 2048, 5e4,
                          1e-5, is_tied=True, is_bpe=True, has_centered_norms=True,
                          has_parallel_ffn=True,
                          keys={"attention.sliding_window": 32, "logit_scale": 0.25}),
    "tiny-gpt-oss": Shape("nothing: for tests", "gpt-oss", 2, 256, 4, 2, 64, 256, 1024, 2048, 1.5e5,
                          1e-5, n_experts=8, n_used_experts=4, is_bpe=True, has_qkv_biases=True,
                          has_sinks=True, has_biases=True, ffn_norm="post_attention_norm",
                          keys={"attention.sliding_window": 32, "rope.scaling.type": "yarn",
                                "rope.scaling.factor": 32.0,
                                "rope.scaling.original_context_length": 512}),
    "tiny-minicpm": Shape("nothing: for tests", "minicpm", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e4,
                          1e-5, is_tied=True,
                          keys={"embedding_scale": 12.0, "residual_scale": 0.99,
                                "logit_scale": 1.0}),
    "tiny-olmo2": Shape("nothing: for tests", "olmo2", 2, 256, 4, 4, 64, 512, 1024, 2048, 5e5, 1e-6,
                        is_bpe=True, has_qk_norms=True, has_wide_head_norms=True,
                        has_pre_norms=False, has_post_norms=True),
    "tiny-qwen2vl": Shape("nothing: for tests", "qwen2vl", 2, 256, 4, 2, 64, 512, 1024, 2048, 1e6,
                          1e-6, is_tied=True, has_qkv_biases=True, is_bpe=True,
                          keys={"rope.dimension_sections": [8, 12, 12, 0]}),
    "tiny-qwen3vl": Shape("nothing: for tests", "qwen3vl", 2, 256, 4, 2, 64, 512, 1024, 2048, 5e6,
                          1e-6, is_tied=True, has_qk_norms=True, is_bpe=True,
                          keys={"rope.dimension_sections": [12, 10, 10, 0]}),
}

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


def make_layer(shape, mixture, layer, n_layers):
    """Inputs of deviation 1 give outputs of about 1; what layers add to the residual stream does
    not grow with their number."""
    n_q, n_kv = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    quiet = 1 / math.sqrt(2.0 * n_layers)
    suffix, experts = ("_exps", [shape.n_experts]) if shape.n_experts > 0 else ("", [])

    def vector(name, n, deviation=None):
        return Tensor(f"blk.{layer}.{name}", "F32", (n,), deviation)

    def weights(name, gain, *dims):
        kind = "F32"
        if name != "ffn_gate_inp":
            kind = choose_type(mixture, shape, name, layer, n_layers)
        return matrix(f"blk.{layer}.{name}.weight", kind, gain / math.sqrt(dims[0]), *dims)

    if shape.has_pre_norms:
        yield vector("attn_norm.weight", shape.n_embd)
    yield weights("attn_q", 1, shape.n_embd, n_q)
    yield weights("attn_k", 1, shape.n_embd, n_kv)
    yield weights("attn_v", 1, shape.n_embd, n_kv)
    if shape.has_qkv_biases:
        yield vector("attn_q.bias", n_q, 0.1)
        yield vector("attn_k.bias", n_kv, 0.1)
        yield vector("attn_v.bias", n_kv, 0.1)
    if shape.has_qk_norms:
        is_wide = shape.has_wide_head_norms
        yield vector("attn_q_norm.weight", n_q if is_wide else shape.head_dim)
        yield vector("attn_k_norm.weight", n_kv if is_wide else shape.head_dim)
    if shape.has_sinks:
        yield vector("attn_sinks.weight", shape.n_heads, 1.0)
    yield weights("attn_output", quiet, n_q, shape.n_embd)
    if shape.has_biases:
        yield vector("attn_output.bias", shape.n_embd, 0.1 * quiet)
    if shape.has_post_norms:
        yield vector("post_attention_norm.weight", shape.n_embd)
    if shape.has_pre_norms and not shape.has_parallel_ffn:
        yield vector(shape.ffn_norm + ".weight", shape.n_embd)
    if shape.n_experts > 0:
        yield weights("ffn_gate_inp", 1, shape.n_embd, shape.n_experts)
    if shape.n_experts > 0 and shape.has_biases:
        yield vector("ffn_gate_inp.bias", shape.n_experts, 0.1)
        for name, n, gain in (("gate", shape.n_ff, 0.1), ("up", shape.n_ff, 0.1),
                              ("down", shape.n_embd, 0.1 * quiet)):
            yield Tensor(f"blk.{layer}.ffn_{name}_exps.bias", "F32", (n, shape.n_experts), gain)
    if shape.has_fused_gate:
        yield weights("ffn_up", 1, shape.n_embd, 2 * shape.n_ff)
    else:
        yield weights("ffn_gate" + suffix, 1, shape.n_embd, shape.n_ff, *experts)
        yield weights("ffn_up" + suffix, 1, shape.n_embd, shape.n_ff, *experts)
    yield weights("ffn_down" + suffix, quiet, shape.n_ff, shape.n_embd, *experts)
    if shape.has_post_norms:
        yield vector("post_ffw_norm.weight", shape.n_embd)


def make_tensors(shape, mixture, n_layers):
    """All tensors in the order of a file."""
    deviation = LOGITS_GAIN / math.sqrt(shape.n_embd)
    output = mixture.type if mixture.rules == PURE else "Q6_K"
    yield matrix("token_embd.weight", output if shape.is_tied else mixture.type,
                 deviation if shape.is_tied else 1.0, shape.n_embd, shape.n_vocab)
    for layer in range(n_layers):
        yield from make_layer(shape, mixture, layer, n_layers)
    yield Tensor("output_norm.weight", "F32", (shape.n_embd,), None)
    if not shape.is_tied:
        yield matrix("output.weight", output, deviation, shape.n_embd, shape.n_vocab)
