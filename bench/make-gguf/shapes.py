# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shapes of well-known models."""
import dataclasses


@dataclasses.dataclass
class Latent:
    """Keys and values of one vector, which all heads share."""
    query_rank: int
    kv_rank: int
    n_unrotated: int         # values of a head's query; rotated ones are behind them
    n_rotated: int
    value_dim: int           # of a head


@dataclasses.dataclass
class Shared:
    """Layers with a window and without, of which the last have no keys and values of their own."""
    period: int              # every so many layers one has no window
    n_layers: int            # of the whole model: those without keys and values
    full_head_dim: int = 0   # of heads without a window; 0: as the others
    ff_factor: int = 1       # how many times wider the networks of those layers are


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
    n_layer_embd: int = 0    # of an embedding that each layer has
    has_streams: bool = False           # four residual streams, and a way around attention
    has_layer_scales: bool = False
    n_dense: int = 0         # layers without experts before those with
    n_dense_ff: int = 0
    n_shared_experts: int = 0
    latent: Latent = None
    shared: Shared = None
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
    "mistral-7b": Shape("Mistral 7B", "llama", 32, 4096, 32, 8, 128, 14336, 32768, 32768, 1e6, 1e-5),
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
    "gemma3n-e2b": Shape("Gemma 3n E2B", "gemma3n", 30, 2048, 8, 2, 256, 8192, 262144, 32768, 1e6,
                         1e-6, is_tied=True, has_qk_norms=True, has_post_norms=True,
                         n_layer_embd=256, has_streams=True, shared=Shared(5, 10),
                         keys={"attention.sliding_window": 512, "altup.num_inputs": 4,
                               "altup.active_idx": 0, "embedding_length_per_layer_input": 256}),
    "gemma4-e2b": Shape("Gemma 4 E2B", "gemma4", 35, 1536, 8, 1, 256, 6144, 262144, 131072, 1e6,
                        1e-6, is_tied=True, has_qk_norms=True, has_post_norms=True,
                        n_layer_embd=256, has_layer_scales=True, shared=Shared(5, 20, 512, 2),
                        keys={"attention.sliding_window": 512, "rope.freq_base_swa": 1e4,
                              "embedding_length_per_layer_input": 256,
                              "final_logit_softcapping": 30.0}),
    "glm-4.7-flash": Shape("GLM 4.7 Flash, 64 experts of which 4 are used", "deepseek2", 47, 2048, 20,
                           1, 576, 1536, 154880, 202752, 1e6, 1e-5, n_experts=64, n_used_experts=4,
                           is_bpe=True, n_dense=1, n_dense_ff=10240, n_shared_experts=1,
                           latent=Latent(768, 512, 192, 64, 256),
                           keys={"expert_gating_func": 2, "expert_weights_norm": True,
                                 "expert_weights_scale": 1.8}),
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
    "tiny-gemma3n": Shape("nothing: for tests", "gemma3n", 6, 256, 4, 2, 64, 512, 1024, 2048, 1e6,
                          1e-6, is_tied=True, has_qk_norms=True, has_post_norms=True,
                          n_layer_embd=256, has_streams=True, shared=Shared(3, 2),
                          keys={"attention.sliding_window": 32, "altup.num_inputs": 4,
                                "altup.active_idx": 0, "embedding_length_per_layer_input": 256}),
    "tiny-gemma4": Shape("nothing: for tests", "gemma4", 6, 256, 4, 1, 64, 512, 1024, 2048, 1e6,
                         1e-6, is_tied=True, has_qk_norms=True, has_post_norms=True,
                         n_layer_embd=256, has_layer_scales=True, shared=Shared(3, 3, 128, 2),
                         keys={"attention.sliding_window": 32, "rope.freq_base_swa": 1e4,
                               "embedding_length_per_layer_input": 256,
                               "final_logit_softcapping": 30.0}),
    "tiny-deepseek2": Shape("nothing: for tests", "deepseek2", 3, 256, 4, 1, 96, 256, 1024, 2048, 1e6,
                            1e-5, n_experts=8, n_used_experts=4, is_bpe=True, n_dense=1,
                            n_dense_ff=512, n_shared_experts=1,
                            latent=Latent(128, 64, 64, 32, 64),
                            keys={"expert_gating_func": 2, "expert_weights_norm": True,
                                  "expert_weights_scale": 1.8}),
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
