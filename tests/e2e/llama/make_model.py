#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny llama model with seeded random weights: it says nothing of sense, but llama.cpp loads it,
tokenizes with it and decodes with it as with any other model.

make_model.py FILE [q4_0] [large]: with weights as they are, or those of the layers in 4-bit blocks; "large" is
large enough that computing takes most of the time."""
import sys

import gguf
import numpy as np

EMBED, LAYERS, HEADS, FEED_FORWARD, CONTEXT = 64, 2, 4, 128, 2048
if "large" in sys.argv[2:]:
    EMBED, LAYERS, HEADS, FEED_FORWARD = 2048, 8, 32, 5632


def vocabulary():
    """SentencePiece-style: three special pieces, every byte, printable characters, a few words."""
    tokens = [b"<unk>", b"<s>", b"</s>"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    for byte in range(256):
        tokens.append(b"<0x%02X>" % byte)
        kinds.append(gguf.TokenType.BYTE)
    pieces = ["\u2581"] + [chr(c) for c in range(33, 127)]
    pieces += ["\u2581the", "\u2581a", "th", "he", "in", "an", "er", "on"]
    for piece in pieces:
        tokens.append(piece.encode())
        kinds.append(gguf.TokenType.NORMAL)
    scores = [0.0 if k != gguf.TokenType.NORMAL else -float(i) for i, k in enumerate(kinds)]
    return tokens, scores, kinds


def main(path, packed=False):
    tokens, scores, kinds = vocabulary()
    rng = np.random.default_rng(20240229)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("tiny random llama")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(EMBED)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FEED_FORWARD)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(EMBED // HEADS)
    w.add_vocab_size(len(tokens))
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0 if packed else gguf.LlamaFileType.ALL_F32)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)

    def weights(rows, cols):
        return (rng.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)

    def add_weights(name, rows, cols):
        data = weights(rows, cols)
        if packed:
            kind = gguf.GGMLQuantizationType.Q4_0
            w.add_tensor(name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            w.add_tensor(name, data)

    w.add_tensor("token_embd.weight", weights(len(tokens), EMBED))
    w.add_tensor("output_norm.weight", np.ones(EMBED, dtype=np.float32))
    output = weights(len(tokens), EMBED)
    output[2] = -output[1]  # the end token has no weight of its own that training would give it
    w.add_tensor("output.weight", output)
    for i in range(LAYERS):
        p = f"blk.{i}."
        w.add_tensor(p + "attn_norm.weight", np.ones(EMBED, dtype=np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add_weights(p + name + ".weight", EMBED, EMBED)
        w.add_tensor(p + "ffn_norm.weight", np.ones(EMBED, dtype=np.float32))
        add_weights(p + "ffn_gate.weight", FEED_FORWARD, EMBED)
        add_weights(p + "ffn_up.weight", FEED_FORWARD, EMBED)
        add_weights(p + "ffn_down.weight", EMBED, FEED_FORWARD)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main(sys.argv[1], "q4_0" in sys.argv[2:])
