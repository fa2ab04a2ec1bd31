#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the small random models of this folder, one for each architecture and
each thing that it has which others lack; README.md says what their logits are.

Weights are multiples of 1/256, so that the files are compressed well. The same
script writes the same bytes everywhere.
"""

import random
import struct
import sys
from pathlib import Path

N_VOCAB = 64
N_EMBD = 32
N_HEADS = 2
N_KV_HEADS = 1
HEAD_DIM = 16
N_FF = 40

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


class Gguf:
    def __init__(self, architecture):
        self.architecture = architecture
        self.keys = []
        self.tensors = []

    def add(self, key, kind, value):
        self.keys.append(self.text(key) + struct.pack('<I', kind) + self.value(kind, value))

    def text(self, text):
        data = text.encode()
        return struct.pack('<Q', len(data)) + data

    def value(self, kind, value):
        if kind == STRING:
            return self.text(value)
        if kind == ARRAY:
            item_kind, items = value
            return (struct.pack('<IQ', item_kind, len(items))
                    + b''.join(self.value(item_kind, item) for item in items))
        return struct.pack({UINT32: '<I', INT32: '<i', FLOAT32: '<f', BOOL: '<?'}[kind], value)

    def key(self, suffix, value):
        """A key of the architecture, of the type that the value suggests."""
        if isinstance(value, list):
            kind = (BOOL if isinstance(value[0], bool) else FLOAT32 if isinstance(value[0], float)
                    else INT32)
            self.add(f'{self.architecture}.{suffix}', ARRAY, (kind, value))
            return
        kind = (STRING if isinstance(value, str) else BOOL if isinstance(value, bool) else
                FLOAT32 if isinstance(value, float) else UINT32)
        self.add(f'{self.architecture}.{suffix}', kind, value)

    def tensor(self, name, dims, values):
        self.tensors.append((name, dims, struct.pack(f'<{len(values)}f', *values)))

    def write(self, path):
        out = struct.pack('<4sIQQ', b'GGUF', 3, len(self.tensors), len(self.keys))
        out += b''.join(self.keys)
        offset = 0
        for name, dims, data in self.tensors:
            out += self.text(name) + struct.pack('<I', len(dims))
            out += struct.pack(f'<{len(dims)}Q', *dims) + struct.pack('<IQ', 0, offset)
            offset += (len(data) + 31) // 32 * 32
        out += bytes(-len(out) % 32)
        for _, _, data in self.tensors:
            out += data + bytes(-len(data) % 32)
        path.write_bytes(out)


class Model:
    """What a file has; the architectures below say which of it."""

    def __init__(self, name, architecture, **options):
        self.name = name
        self.gguf = Gguf(architecture)
        self.random = random.Random(name)
        self.o = options

    def draw(self, n, deviation, mean=0.0):
        return [round(256 * (mean + deviation * self.random.uniform(-3 ** 0.5, 3 ** 0.5))) / 256
                for _ in range(n)]

    def matrix(self, name, n_in, n_out, gain=1.5):
        self.gguf.tensor(name + '.weight', [n_in, n_out],
                         self.draw(n_in * n_out, gain / n_in ** 0.5))

    def norm(self, name, n, mean=1.0):
        self.gguf.tensor(name + '.weight', [n], self.draw(n, 0.3, mean))

    def bias(self, name, n):
        self.gguf.tensor(name + '.bias', [n], self.draw(n, 0.7))

    def factors(self, name):
        n = self.o.get('rope_dim', HEAD_DIM) // 2
        self.gguf.tensor(name + '.weight', [n], [1 + 3 * x * x for x in self.draw(n, 1)])

    def add_keys(self):
        g = self.gguf
        g.add('general.architecture', STRING, g.architecture)
        g.add('general.name', STRING, 'random')
        g.add('general.license', STRING, 'cc0-1.0')
        g.key('block_count', self.o.get('n_layers', 2))
        g.key('context_length', self.o.get('n_ctx', 4096))
        g.key('embedding_length', N_EMBD)
        if 'feed_forward_length' not in self.o.get('keys', {}):
            g.key('feed_forward_length', self.o.get('n_ff', N_FF))
        g.key('attention.head_count', N_HEADS)
        if 'attention.head_count_kv' not in self.o.get('keys', {}):
            g.key('attention.head_count_kv', N_KV_HEADS)
        if 'attention.key_length' not in self.o.get('keys', {}):
            g.key('attention.key_length', HEAD_DIM)
            g.key('attention.value_length', HEAD_DIM)
        g.key(self.o.get('eps_key', 'attention.layer_norm_rms_epsilon'), 1e-5)
        g.key('rope.dimension_count', self.o.get('rope_dim', HEAD_DIM))
        g.key('rope.freq_base', self.o.get('rope_base', 10000.0))
        g.key('vocab_size', N_VOCAB)
        for suffix, value in self.o.get('keys', {}).items():
            g.key(suffix, value)
        g.add('tokenizer.ggml.model', STRING, 'llama')
        g.add('tokenizer.ggml.pre', STRING, 'default')
        tokens = ['<unk>', '<s>', '</s>', '<0x0A>']
        tokens += ['\u2581' + chr(ord('A') + i // 26) + chr(ord('a') + i % 26)
                   for i in range(N_VOCAB - len(tokens))]
        g.add('tokenizer.ggml.tokens', ARRAY, (STRING, tokens))
        g.add('tokenizer.ggml.scores', ARRAY, (FLOAT32, [-float(i) for i in range(N_VOCAB)]))
        g.add('tokenizer.ggml.token_type', ARRAY, (INT32, [2, 3, 3, 6] + [1] * (N_VOCAB - 4)))
        g.add('tokenizer.ggml.bos_token_id', UINT32, 1)
        g.add('tokenizer.ggml.eos_token_id', UINT32, 2)
        g.add('tokenizer.ggml.unknown_token_id', UINT32, 0)

    def add_latent_attention(self, prefix):
        heads, rank, rope, nope, value = N_HEADS, 12, 4, 6, 10
        self.norm(prefix + 'attn_norm', N_EMBD)
        if 'attention.q_lora_rank' in self.o['keys']:
            n = self.o['keys']['attention.q_lora_rank']
            self.matrix(prefix + 'attn_q_a', N_EMBD, n)
            self.norm(prefix + 'attn_q_a_norm', n)
            self.matrix(prefix + 'attn_q_b', n, heads * (nope + rope))
        else:
            self.matrix(prefix + 'attn_q', N_EMBD, heads * (nope + rope))
        self.matrix(prefix + 'attn_kv_a_mqa', N_EMBD, rank + rope)
        self.norm(prefix + 'attn_kv_a_norm', rank)
        for name, n_in, n_out in ('attn_k_b', nope, rank), ('attn_v_b', rank, value):
            self.gguf.tensor(f'{prefix}{name}.weight', [n_in, n_out, heads],
                             self.draw(n_in * n_out * heads, 1.5 / n_in ** 0.5))
        self.matrix(prefix + 'attn_output', heads * value, N_EMBD)

    def add_attention(self, prefix, layer):
        if self.o.get('is_latent'):
            self.add_latent_attention(prefix)
            return
        n_kv_heads, head_dim = self.o.get('heads', {}).get(layer, (N_KV_HEADS, HEAD_DIM))
        n_q, n_kv = N_HEADS * head_dim, n_kv_heads * head_dim
        has_kv = layer < self.o.get('n_kv_layers', layer + 1)
        biases = self.o.get('biases', '')
        if not self.o.get('lacks_pre_norms'):
            self.norm(prefix + 'attn_norm', N_EMBD)
        if self.o.get('is_fused'):
            self.matrix(prefix + 'attn_qkv', N_EMBD, n_q + 2 * n_kv)
            if 'q' in biases:
                self.bias(prefix + 'attn_qkv', n_q + 2 * n_kv)
        else:
            for part, n in ('q', n_q), ('k', n_kv), ('v', n_kv):
                if part != 'q' and not has_kv and not self.o.get('has_unused_keys'):
                    continue
                if part == 'v' and layer in self.o.get('lacks_values', []):
                    continue
                self.matrix(prefix + 'attn_' + part, N_EMBD, n)
                if part in biases:
                    self.bias(prefix + 'attn_' + part, n)
        if self.o.get('has_head_norms'):
            self.norm(prefix + 'attn_q_norm', head_dim)
            if has_kv or self.o.get('has_unused_keys'):
                self.norm(prefix + 'attn_k_norm', head_dim)
        if self.o.get('has_wide_head_norms'):
            self.norm(prefix + 'attn_q_norm', n_q)
            self.norm(prefix + 'attn_k_norm', n_kv)
        if self.o.get('has_sinks'):
            self.gguf.tensor(prefix + 'attn_sinks.weight', [N_HEADS], self.draw(N_HEADS, 1, 1.0))
        self.matrix(prefix + 'attn_output', n_q, N_EMBD)
        if 'o' in biases:
            self.bias(prefix + 'attn_output', N_EMBD)
        if self.o.get('has_post_norms'):
            self.norm(prefix + 'post_attention_norm', N_EMBD, 0.8)

    def add_experts(self, prefix):
        n_experts, n_ff = self.o['n_experts'], self.o['n_ff']
        has_biases = 'e' in self.o.get('biases', '')
        gain = self.o.get('expert_gain', 1.5)
        self.norm(prefix + self.o.get('ffn_norm', 'ffn_norm'), N_EMBD)
        self.matrix(prefix + 'ffn_gate_inp', N_EMBD, n_experts)
        if has_biases:
            self.bias(prefix + 'ffn_gate_inp', n_experts)
        if self.o.get('has_choice_bias'):
            self.gguf.tensor(prefix + 'exp_probs_b.bias', [n_experts], self.draw(n_experts, 0.3))
        for part, n_in, n_out in (('gate', N_EMBD, 16), ('up', N_EMBD, 16), ('down', 16, N_EMBD)):
            if self.o.get('has_shared'):
                self.matrix(f'{prefix}ffn_{part}_shexp', n_in, n_out)
        for part, n_in, n_out in ('gate', N_EMBD, n_ff), ('up', N_EMBD, n_ff), ('down', n_ff, N_EMBD):
            self.gguf.tensor(f'{prefix}ffn_{part}_exps.weight', [n_in, n_out, n_experts],
                             self.draw(n_in * n_out * n_experts, gain / n_in ** 0.5))
            if has_biases:
                self.gguf.tensor(f'{prefix}ffn_{part}_exps.bias', [n_out, n_experts],
                                 self.draw(n_out * n_experts, 0.7))

    def add_ffn(self, prefix, layer):
        n_ff = self.o.get('widths', {}).get(layer, N_FF)
        has_biases = 'f' in self.o.get('biases', '')
        if not self.o.get('lacks_pre_norms') and not self.o.get('is_parallel'):
            self.norm(prefix + 'ffn_norm', N_EMBD)
        if self.o.get('is_fused') or self.o.get('has_fused_gate'):
            self.matrix(prefix + 'ffn_up', N_EMBD, 2 * n_ff)
        else:
            for part in 'gate', 'up':
                self.matrix(prefix + 'ffn_' + part, N_EMBD, n_ff)
                if has_biases:
                    self.bias(prefix + 'ffn_' + part, n_ff)
        self.matrix(prefix + 'ffn_down', n_ff, N_EMBD, 1.0)
        if has_biases:
            self.bias(prefix + 'ffn_down', N_EMBD)
        if self.o.get('has_post_norms'):
            self.norm(prefix + 'post_ffw_norm', N_EMBD, 0.8)

    def add_layer_end(self, prefix):
        n = self.o.get('layer_embd', 0)
        if n > 0:
            self.matrix(prefix + 'inp_gate', N_EMBD, n)
            self.matrix(prefix + 'proj', n, N_EMBD)
            self.norm(prefix + 'post_norm', N_EMBD, 0.8)
        if self.o.get('has_streams'):
            self.norm(prefix + 'altup_router_norm', N_EMBD)
            # large, as the router divides by the width
            self.matrix(prefix + 'altup_router', N_EMBD, 4, 20.0)
            self.matrix(prefix + 'altup_predict_coef', 4, 16, 0.4)
            self.matrix(prefix + 'altup_correct_coef', 4, 4, 0.8)
            self.norm(prefix + 'altup_correct_scale', N_EMBD)
            self.matrix(prefix + 'laurel_l', N_EMBD, 8)
            self.matrix(prefix + 'laurel_r', 8, N_EMBD)
            self.norm(prefix + 'laurel_post_norm', N_EMBD, 0.8)
        if self.o.get('has_layer_scale'):
            self.gguf.tensor(prefix + 'layer_output_scale.weight', [1], self.draw(1, 0.2, 0.8))

    def write(self, folder):
        self.add_keys()
        n_layers, n = self.o.get('n_layers', 2), self.o.get('layer_embd', 0)
        if self.o.get('has_streams'):
            for name in 'altup_proj', 'altup_unembd_proj':
                self.gguf.tensor(name + '.weight', [N_EMBD, N_EMBD, 3],
                                 self.draw(3 * N_EMBD * N_EMBD, 1.5 / N_EMBD ** 0.5))
        if n > 0:
            self.matrix('per_layer_token_embd', n_layers * n, N_VOCAB, 2.5)
            self.matrix('per_layer_model_proj', N_EMBD, n_layers * n, 1.5)
            self.norm('per_layer_proj_norm', n)
        # Small enough that layers count beside it.
        self.matrix('token_embd', N_EMBD, N_VOCAB, self.o.get('embedding_gain', 2.5))
        for name in self.o.get('factors', []):
            self.factors(name)
        for layer in range(self.o.get('n_layers', 2)):
            self.add_attention(f'blk.{layer}.', layer)
            if 'n_experts' in self.o and layer >= self.o.get('n_dense', 0):
                self.add_experts(f'blk.{layer}.')
            else:
                self.add_ffn(f'blk.{layer}.', layer)
            self.add_layer_end(f'blk.{layer}.')
        self.norm('output_norm', N_EMBD)
        if self.o.get('is_untied'):
            self.matrix('output', N_EMBD, N_VOCAB, 2.5)
        if 'l' in self.o.get('biases', ''):
            self.bias('output', N_VOCAB)
        self.gguf.write(folder / (self.name + '.gguf'))


LATENT = {'attention.kv_lora_rank': 12, 'attention.key_length': 16, 'attention.value_length': 12,
          'attention.key_length_mla': 10, 'attention.value_length_mla': 10}
LONG = ['rope_factors_long', 'rope_factors_short']
GEMMA = {'has_post_norms': True, 'embedding_gain': 1.0}

MODELS = [
    Model('llama-linear', 'llama',
          keys={'rope.scaling.type': 'linear', 'rope.scaling.factor': 4.0}),
    Model('llama-llama3', 'llama', is_untied=True, rope_base=500000.0, factors=['rope_freqs']),
    Model('llama-yarn', 'llama', is_untied=True,
          keys={'rope.scaling.type': 'yarn', 'rope.scaling.factor': 8.0,
                'rope.scaling.original_context_length': 512}),
    Model('llama-longrope', 'llama', factors=LONG,
          keys={'rope.scaling.type': 'longrope', 'rope.scaling.attn_factor': 1.25,
                'rope.scaling.original_context_length': 16}),
    Model('llama-biases', 'llama', biases='qkvof'),
    Model('llama-experts', 'llama', n_experts=5, n_ff=32,
          keys={'expert_count': 5, 'expert_used_count': 2}),
    Model('exaone', 'exaone', is_untied=True, factors=['rope_freqs']),
    Model('qwen2', 'qwen2', is_untied=True, biases='qkvl', rope_base=1000000.0),
    Model('qwen2-tied', 'qwen2', biases='qkv'),
    Model('qwen3', 'qwen3', has_head_norms=True, rope_base=1000000.0),
    Model('qwen3-yarn', 'qwen3', has_head_norms=True, is_untied=True, rope_base=1000000.0,
          keys={'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4.0,
                'rope.scaling.original_context_length': 1024}),
    Model('qwen3moe', 'qwen3moe', has_head_norms=True, is_untied=True, rope_base=1000000.0,
          n_experts=6, n_ff=16,
          keys={'expert_count': 6, 'expert_used_count': 3, 'feed_forward_length': 48,
                'expert_feed_forward_length': 16}),
    Model('gemma2', 'gemma2', n_layers=3, **GEMMA,
          keys={'attention.sliding_window': 8, 'attn_logit_softcapping': 2.0,
                'final_logit_softcapping': 6.0}),
    Model('gemma3', 'gemma3', n_layers=6, has_head_norms=True, rope_base=1000000.0, **GEMMA,
          keys={'attention.sliding_window': 8, 'rope.scaling.type': 'linear',
                'rope.scaling.factor': 8.0}),
    Model('gemma3-cap', 'gemma3', n_layers=2, has_head_norms=True, rope_base=1000000.0, **GEMMA,
          is_untied=True,
          keys={'attention.sliding_window': 5, 'attention.sliding_window_pattern': 2,
                'rope.freq_base_swa': 500.0, 'final_logit_softcapping': 6.0}),
    Model('phi3', 'phi3', is_fused=True, is_untied=True, rope_dim=8),
    Model('phi3-short', 'phi3', is_fused=True, factors=LONG,
          keys={'rope.scaling.original_context_length': 4096,
                'rope.scaling.attn_factor': 1.19}),
    Model('phi3-long', 'phi3', is_fused=True, biases='q', factors=LONG,
          keys={'rope.scaling.original_context_length': 16, 'rope.scaling.attn_factor': 1.19}),
    Model('mistral3', 'mistral3', is_untied=True, rope_base=1000000.0,
          keys={'rope.scaling.type': 'yarn', 'rope.scaling.factor': 16.0,
                'rope.scaling.original_context_length': 16, 'rope.scaling.yarn_beta_fast': 4.0,
                'rope.scaling.yarn_beta_slow': 0.25, 'rope.scaling.yarn_log_multiplier': 0.5,
                'attention.temperature_scale': 0.5}),
    Model('mistral3-plain', 'mistral3', biases='o'),
    Model('smollm3', 'smollm3', n_layers=4, rope_base=5000000.0),
    Model('granite', 'granite', biases='o',
          keys={'embedding_scale': 3.0, 'residual_scale': 0.375, 'attention.scale': 0.125,
                'logit_scale': 4.0, 'expert_shared_feed_forward_length': 40}),
    Model('granite-unrotated', 'granite', is_untied=True,
          keys={'logit_scale': 0.5, 'rope.scaling.finetuned': False}),
    Model('minicpm', 'minicpm', is_untied=True, factors=LONG,
          keys={'embedding_scale': 2.0, 'residual_scale': 0.5, 'logit_scale': 2.0,
                'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 16}),
    Model('glm4', 'glm4', is_untied=True, biases='qkv', has_fused_gate=True, has_post_norms=True,
          rope_dim=8),
    Model('olmo2', 'olmo2', is_untied=True, has_wide_head_norms=True, has_post_norms=True,
          lacks_pre_norms=True, rope_base=500000.0),
    Model('exaone4', 'exaone4', has_head_norms=True, has_post_norms=True, lacks_pre_norms=True,
          factors=['rope_freqs']),
    Model('cohere2', 'cohere2', n_layers=4, is_parallel=True, rope_base=50000.0, embedding_gain=1.0,
          eps_key='attention.layer_norm_epsilon',
          keys={'attention.sliding_window': 8, 'logit_scale': 0.25}),
    Model('gpt-oss', 'gpt-oss', is_untied=True, biases='qkvoe', has_sinks=True, rope_base=150000.0,
          n_experts=6, n_ff=16, ffn_norm='post_attention_norm', expert_gain=4.0,
          keys={'expert_count': 6, 'expert_used_count': 3, 'feed_forward_length': 16,
                'expert_feed_forward_length': 16, 'attention.sliding_window': 8,
                'rope.scaling.type': 'yarn', 'rope.scaling.factor': 32.0,
                'rope.scaling.original_context_length': 16}),
    Model('gemma3n', 'gemma3n', n_layers=6, has_head_norms=True, rope_base=1000000.0, layer_embd=8,
          has_streams=True, has_unused_keys=True, n_kv_layers=4, **GEMMA,
          keys={'attention.sliding_window': 8,
                'attention.sliding_window_pattern': [True, True, True, False, True, False],
                'attention.shared_kv_layers': 2, 'embedding_length_per_layer_input': 8,
                'altup.num_inputs': 4, 'altup.active_idx': 0,
                'activation_sparsity_scale': [1.6448533535003662] * 2 + [float('-inf')] * 4}),
    Model('gemma4', 'gemma4', n_layers=6, has_head_norms=True, rope_base=1000000.0, rope_dim=16,
          factors=['rope_freqs'], layer_embd=8, has_layer_scale=True, **GEMMA,
          heads={0: (1, 8), 1: (1, 8), 3: (1, 8), 4: (1, 8)}, n_kv_layers=3, widths={4: 56, 5: 56},
          keys={'attention.sliding_window': 8,
                'attention.sliding_window_pattern': [True, True, False, True, True, False],
                'attention.key_length': 16, 'attention.value_length': 16,
                'attention.key_length_swa': 8, 'attention.value_length_swa': 8,
                'rope.dimension_count_swa': 8, 'rope.freq_base_swa': 500.0,
                'attention.shared_kv_layers': 3, 'embedding_length_per_layer_input': 8,
                'feed_forward_length': [40, 40, 40, 40, 56, 56],
                'final_logit_softcapping': 6.0}),
    Model('gemma4-dense', 'gemma4', n_layers=3, has_head_norms=True, rope_base=1000000.0,
          rope_dim=16, factors=['rope_freqs'], is_untied=True, **GEMMA,
          heads={0: (2, 8), 1: (2, 8), 2: (1, 16)}, lacks_values=[2],
          keys={'attention.sliding_window': 8, 'attention.sliding_window_pattern': [True, True, False],
                'attention.key_length': 16, 'attention.value_length': 16,
                'attention.key_length_swa': 8, 'attention.value_length_swa': 8,
                'attention.head_count_kv': [2, 2, 1],
                'rope.dimension_count_swa': 8, 'rope.freq_base_swa': 500.0,
                'attention.shared_kv_layers': 0, 'embedding_length_per_layer_input': 0}),
    Model('deepseek2', 'deepseek2', n_layers=3, is_latent=True, is_untied=True, rope_dim=4,
          rope_base=1000000.0, n_experts=6, n_ff=16, n_dense=1, has_shared=True,
          has_choice_bias=True, expert_gain=2.5,
          keys={**LATENT, 'attention.q_lora_rank': 9, 'feed_forward_length': 40,
                'expert_count': 6, 'expert_used_count': 3, 'expert_shared_count': 1,
                'expert_feed_forward_length': 16, 'leading_dense_block_count': 1,
                'expert_gating_func': 2, 'expert_weights_norm': True, 'expert_weights_scale': 1.75}),
    Model('deepseek2-lite', 'deepseek2', n_layers=4, is_latent=True, rope_dim=4,
          n_experts=5, n_ff=16, n_dense=2, has_shared=True, expert_gain=2.5,
          keys={**LATENT, 'feed_forward_length': 40, 'expert_count': 5, 'expert_used_count': 2,
                'expert_shared_count': 1, 'expert_feed_forward_length': 16,
                'leading_dense_block_count': 2, 'expert_gating_func': 1,
                'rope.scaling.type': 'yarn', 'rope.scaling.factor': 40.0,
                'rope.scaling.original_context_length': 16,
                'rope.scaling.yarn_log_multiplier': 0.0707}),
    Model('qwen2vl', 'qwen2vl', is_untied=True, biases='qkv', rope_base=1000000.0,
          keys={'rope.dimension_sections': [2, 3, 3, 0]}),
    Model('qwen3vl', 'qwen3vl', has_head_norms=True, rope_base=5000000.0,
          keys={'rope.dimension_sections': [3, 3, 2, 0], 'n_deepstack_layers': 3}),
]


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for model in MODELS:
        model.write(folder)


main()
