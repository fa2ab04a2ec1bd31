# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keys of a file with random weights, with a vocabulary that can write every text."""
from modelfile.head import BOOL, FLOAT32, INT32, STRING, UINT32, Keys

from .tensors import get_layer

SPACE_MARK = "\u2581"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

CHATML = ("{% for message in messages %}"
          "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
          "{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


class Vocabulary:
    """Bytes, single letters and pairs of letters; then words that nothing merges into, which give
    the vocabulary its size and random answers something to show."""

    def __init__(self, shape):
        self.n_tokens = shape.n_vocab
        self.texts, self.kinds, self.merges = [], [], []

    def add(self, token, kind):
        self.texts.append(token)
        self.kinds.append(kind)
        return len(self.texts) - 1

    def add_words(self, space, n_kept):
        """@space: how this vocabulary writes a space. @n_kept: tokens that come behind."""
        for a in [space] + [chr(letter) for letter in range(ord("a"), ord("z") + 1)]:
            for b in map(chr, range(ord("a"), ord("z") + 1)):
                if len(self.texts) + n_kept < self.n_tokens:
                    self.merges.append(f"{a} {b}")
                    self.add(a + b, NORMAL)
        while len(self.texts) + n_kept < self.n_tokens:
            self.add(f"{space}w{len(self.texts)}", NORMAL)

    def write_sentencepiece(self, keys):
        unknown, bos, eos = (self.add("<unk>", UNKNOWN), self.add("<s>", CONTROL),
                             self.add("</s>", CONTROL))
        for byte in range(256):
            self.add(f"<0x{byte:02X}>", BYTE)
        self.add("<|im_start|>", CONTROL)
        end = self.add("<|im_end|>", CONTROL)
        for letter in SPACE_MARK + "abcdefghijklmnopqrstuvwxyz":
            self.add(letter, NORMAL)
        self.add_words(SPACE_MARK, 0)
        keys.add("tokenizer.ggml.model", STRING, "llama")
        keys.add("tokenizer.ggml.pre", STRING, "default")
        # An earlier piece is merged first.
        keys.add("tokenizer.ggml.scores", FLOAT32,
                 [-float(i) if kind == NORMAL else 0.0 for i, kind in enumerate(self.kinds)])
        for name, token in (("unknown", unknown), ("bos", bos), ("eos", eos), ("eot", end)):
            keys.add(f"tokenizer.ggml.{name}_token_id", UINT32, token)
        keys.add("tokenizer.ggml.add_bos_token", BOOL, True)

    def write_byte_level(self, keys):
        # Bytes of Latin-1 that one can see as themselves, the others as U+0100 and what follows.
        hidden = iter(range(0x100, 0x200))
        for byte in range(256):
            is_visible = 0x20 < byte < 0x7f or (byte > 0xa0 and byte != 0xad)
            self.add(chr(byte if is_visible else next(hidden)), NORMAL)
        self.add_words("\u0120", 3)
        end_of_text = self.add("<|endoftext|>", CONTROL)
        self.add("<|im_start|>", CONTROL)
        end = self.add("<|im_end|>", CONTROL)
        keys.add("tokenizer.ggml.model", STRING, "gpt2")
        keys.add("tokenizer.ggml.pre", STRING, "qwen2")
        keys.add("tokenizer.ggml.merges", STRING, self.merges)
        keys.add("tokenizer.ggml.bos_token_id", UINT32, end_of_text)
        keys.add("tokenizer.ggml.eos_token_id", UINT32, end)
        keys.add("tokenizer.ggml.add_bos_token", BOOL, False)

    def write(self, keys, is_bpe):
        (self.write_byte_level if is_bpe else self.write_sentencepiece)(keys)
        keys.add("tokenizer.ggml.tokens", STRING, self.texts)
        keys.add("tokenizer.ggml.token_type", INT32, self.kinds)
        keys.add("tokenizer.chat_template", STRING, CHATML)


def make_layer_keys(shape, n_layers):
    """Where layers differ, or keys and values are latent."""
    numbers = {}
    layers = [get_layer(shape, i, n_layers) for i in range(n_layers)]
    if shape.shared is not None:
        numbers |= {"attention.sliding_window_pattern": [layer.has_window for layer in layers],
                    "attention.shared_kv_layers": sum(not layer.has_kv for layer in layers),
                    "feed_forward_length": [layer.n_ff for layer in layers]}
    if shape.has_streams:
        numbers["activation_sparsity_scale"] = [1.6448533535003662 if i < 10 else float("-inf")
                                                for i in range(n_layers)]
    if shape.shared is not None and shape.shared.full_head_dim > 0:
        for part in "key", "value":
            numbers |= {f"attention.{part}_length": shape.shared.full_head_dim,
                        f"attention.{part}_length_swa": shape.head_dim}
        numbers |= {"rope.dimension_count": shape.shared.full_head_dim,
                    "rope.dimension_count_swa": shape.head_dim}
    if shape.latent is not None:
        low = shape.latent
        numbers |= {"attention.q_lora_rank": low.query_rank, "attention.kv_lora_rank": low.kv_rank,
                    "attention.key_length": low.kv_rank + low.n_rotated,
                    "attention.value_length": low.kv_rank,
                    "attention.key_length_mla": low.n_unrotated + low.n_rotated,
                    "attention.value_length_mla": low.value_dim,
                    "rope.dimension_count": low.n_rotated, "feed_forward_length": shape.n_dense_ff,
                    "leading_dense_block_count": shape.n_dense,
                    "expert_feed_forward_length": shape.n_ff,
                    "expert_shared_count": shape.n_shared_experts}
    return numbers


def make_keys(name, shape, mixture, n_layers):
    keys = Keys()
    keys.add("general.architecture", STRING, shape.architecture)
    keys.add("general.type", STRING, "model")
    keys.add("general.name", STRING, f"random weights, {name}")
    keys.add("general.license", STRING, "cc0-1.0")
    keys.add("general.file_type", UINT32, mixture.file_type)
    keys.add("general.quantization_version", UINT32, 2)
    numbers = {"block_count": n_layers, "context_length": shape.n_ctx,
               "embedding_length": shape.n_embd, "feed_forward_length": shape.n_ff,
               "attention.head_count": shape.n_heads, "attention.head_count_kv": shape.n_kv_heads}
    if shape.head_dim * shape.n_heads != shape.n_embd or shape.has_qk_norms:
        numbers |= {"attention.key_length": shape.head_dim,
                    "attention.value_length": shape.head_dim}
    if not shape.is_bpe or shape.n_rotated > 0:
        numbers["rope.dimension_count"] = shape.n_rotated or shape.head_dim
    numbers |= make_layer_keys(shape, n_layers)
    epsilon = "layer_norm_epsilon" if shape.has_centered_norms else "layer_norm_rms_epsilon"
    numbers |= {"rope.freq_base": shape.rope_base, f"attention.{epsilon}": shape.eps,
                "vocab_size": shape.n_vocab}
    if shape.n_experts > 0:
        numbers |= {"expert_count": shape.n_experts, "expert_used_count": shape.n_used_experts}
    if shape.architecture in ("qwen3moe", "gpt-oss"):
        numbers |= {"expert_feed_forward_length": shape.n_ff,
                    "feed_forward_length": shape.n_ff * shape.n_used_experts}
    for key, number in (numbers | shape.keys).items():
        first = number[0] if isinstance(number, list) else number
        kind = (BOOL if isinstance(first, bool) else FLOAT32 if isinstance(first, float)
                else STRING if isinstance(first, str)
                else INT32 if isinstance(number, list) else UINT32)
        keys.add(f"{shape.architecture}.{key}", kind, number)
    Vocabulary(shape).write(keys, shape.is_bpe)
    return keys
