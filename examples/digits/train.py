#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the digits network and write weights.h and data.h.

The data is scikit-learn's copy of the UCI handwritten digits (1797 images of 8x8 pixels, values
0..16); the package ships it, nothing is downloaded. The last HELD_OUT images are never trained
on. They stand at the end of the original order, so most of them come from writers that the
network has not seen, which is harder than a shuffled split.

The same seed gives the same bytes, on any machine. Sums of floats depend on their order, and a
BLAS chooses the order by CPU and thread count, so every matrix product here is taken on integers
small enough for float64 to be exact in any order (see product()). All else is element-wise
arithmetic that IEEE 754 rounds the same way everywhere.

    pip install numpy scikit-learn
    python3 train.py            # rewrites weights.h and data.h beside this script
    python3 train.py --check    # trains again and compares; exit status 1 if they differ
"""

import argparse
import os
import sys

import numpy as np

HELD_OUT = 360
GRID = 2.0**16
HERE = os.path.dirname(os.path.abspath(__file__))

# name, kind, inputs, outputs; convolutions are 3x3 with a border of one, "pool" halves the sides
CONVS = [("conv1", 1, 8), ("conv2", 8, 16), ("conv3", 16, 32)]
DENSE = [("fc1", 32 * 2 * 2, 64), ("fc2", 64, 10)]


def product(a, b):
    """a @ b, exact: both operands are rounded to multiples of 1/GRID first."""
    ia = np.rint(a * GRID)
    ib = np.rint(b * GRID)
    bound = np.abs(ia).max() * np.abs(ib).max() * a.shape[1]
    if bound >= 2.0**53:
        raise OverflowError(f"product of {a.shape} and {b.shape} is no longer exact")
    return (ia @ ib) / (GRID * GRID)


def im2col(x):
    """(C, N, H, W) -> (C * 9, N * H * W): row c * 9 + ky * 3 + kx."""
    c, n, h, w = x.shape
    padded = np.zeros((c, n, h + 2, w + 2))
    padded[:, :, 1:-1, 1:-1] = x
    cols = np.empty((c, 9, n, h, w))
    for k in range(9):
        cols[:, k] = padded[:, :, k // 3 : k // 3 + h, k % 3 : k % 3 + w]
    return cols.reshape(c * 9, n * h * w)


def col2im(cols, shape):
    c, n, h, w = shape
    cols = cols.reshape(c, 9, n, h, w)
    padded = np.zeros((c, n, h + 2, w + 2))
    for k in range(9):
        padded[:, :, k // 3 : k // 3 + h, k % 3 : k % 3 + w] += cols[:, k]
    return padded[:, :, 1:-1, 1:-1]


def pool(x):
    """2x2 maximum; also which of the four was it (the first one at a tie)."""
    c, n, h, w = x.shape
    four = np.stack([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    return four.max(axis=0), four.argmax(axis=0)


def unpool(d, which, shape):
    out = np.zeros(shape)
    for k in range(4):
        out[:, :, k // 2 :: 2, k % 2 :: 2] = d * (which == k)
    return out


def softmax(z):
    """Rounded to the grid, which hides how many bits of exp() a machine gets right."""
    e = np.exp(z - z.max(axis=0))
    return np.rint(e / (e[0] + e[1:].sum(axis=0)) * GRID) / GRID


def new_params(rng):
    params = {}
    for name, inputs, outputs in CONVS:
        reach = (6.0 / (inputs * 9)) ** 0.5
        params[name + "_w"] = (rng.random_sample((outputs, inputs * 9)) * 2 - 1) * reach
        params[name + "_b"] = np.zeros((outputs, 1))
    for name, inputs, outputs in DENSE:
        reach = (6.0 / inputs) ** 0.5
        params[name + "_w"] = (rng.random_sample((outputs, inputs)) * 2 - 1) * reach
        params[name + "_b"] = np.zeros((outputs, 1))
    return params


def forward(p, x):
    """x: (N, 8, 8). Returns the logits (10, N) and what the way back needs."""
    keep = {}
    x = x[None]
    for name, _, outputs in CONVS:
        cols = im2col(x)
        z = product(p[name + "_w"], cols) + p[name + "_b"]
        a = np.maximum(z, 0).reshape(outputs, *x.shape[1:])
        keep[name] = (x.shape, cols, a)
        x = a
        if name != "conv1":
            keep[name + "_pool"] = (a.shape,)
            x, which = pool(a)
            keep[name + "_pool"] += (which,)
    keep["flat"] = x.shape
    f = x.transpose(0, 2, 3, 1).reshape(-1, x.shape[1])
    h = np.maximum(product(p["fc1_w"], f) + p["fc1_b"], 0)
    keep["fc"] = (f, h)
    return product(p["fc2_w"], h) + p["fc2_b"], keep


def backward(p, keep, dz):
    g = {}
    f, h = keep["fc"]
    g["fc2_w"] = product(dz, h.T)
    g["fc2_b"] = dz.sum(axis=1, keepdims=True)
    dh = product(p["fc2_w"].T, dz) * (h > 0)
    g["fc1_w"] = product(dh, f.T)
    g["fc1_b"] = product(dh, np.ones((dh.shape[1], 1)))
    c, n, hh, ww = keep["flat"]
    d = product(p["fc1_w"].T, dh).reshape(c, hh, ww, n).transpose(0, 3, 1, 2)
    for name, _, outputs in reversed(CONVS):
        shape, cols, a = keep[name]
        if name + "_pool" in keep:
            d = unpool(d, keep[name + "_pool"][1], keep[name + "_pool"][0])
        dzc = (d * (a > 0)).reshape(outputs, -1)
        g[name + "_w"] = product(dzc, cols.T)
        g[name + "_b"] = product(dzc, np.ones((dzc.shape[1], 1)))
        if name != "conv1":
            d = col2im(product(p[name + "_w"].T, dzc), shape)
    return g


def shifted(images, rng):
    """Each image moved by up to one pixel each way."""
    out = np.zeros_like(images)
    moves = rng.randint(-1, 2, size=(len(images), 2))
    for i, (dy, dx) in enumerate(moves):
        src = images[i, max(0, -dy) : 8 - max(0, dy), max(0, -dx) : 8 - max(0, dx)]
        out[i, max(0, dy) : 8 - max(0, -dy), max(0, dx) : 8 - max(0, -dx)] = src
    return out


def train(images, labels, seed, epochs, quiet):
    # RandomState's streams are frozen for good; the newer generators' are not.
    rng = np.random.RandomState(seed)
    p = new_params(rng)
    speed = {k: np.zeros_like(v) for k, v in p.items()}
    batch = 32
    steps = epochs * (len(images) // batch)
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        right = 0
        for at in range(0, len(images) // batch * batch, batch):
            pick = order[at : at + batch]
            logits, keep = forward(p, shifted(images[pick], rng))
            right += int((logits.argmax(axis=0) == labels[pick]).sum())
            dz = softmax(logits)
            dz[labels[pick], np.arange(batch)] -= 1
            rate = 0.06 * (1 - step / steps) + 0.0005
            g = backward(p, keep, dz)
            for k in p:
                speed[k] = 0.9 * speed[k] - rate * (g[k] / batch + 0.0005 * p[k])
                p[k] = p[k] + speed[k]
            step += 1
        if not quiet:
            print(f"epoch {epoch + 1:3d}: {right} of {steps // epochs * batch} right while training",
                  flush=True)
    return {k: v.astype(np.float32) for k, v in p.items()}


def weights_text(p, seed, epochs):
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */",
             f"/* Written by train.py --seed {seed} --epochs {epochs}. Not edited by hand. */",
             "#ifndef DIGITS_WEIGHTS_H", "#define DIGITS_WEIGHTS_H", ""]
    for name, values in p.items():
        flat = values.ravel()
        lines.append(f"static const float {name}[{len(flat)}] = {{")
        row = "\t"
        for v in flat:
            word = f"{v:.9g}"
            word += "f," if "." in word or "e" in word else ".0f,"
            if len(row) + len(word) > 96:
                lines.append(row)
                row = "\t"
            row += word
        lines += [row, "};", ""]
    lines += ["#endif", ""]
    return "\n".join(lines)


def data_text(images, labels):
    lines = ["/* SPDX-License-Identifier: CC-BY-4.0 */", "/*",
             f" * The {len(images)} held-out images, written by train.py. From \"Optical Recognition of",
             " * Handwritten Digits\", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository 1998,",
             " * as shipped by scikit-learn. Eight rows of eight pixels, 0 (paper) to 16 (ink).",
             " */", "#ifndef DIGITS_DATA_H", "#define DIGITS_DATA_H", "",
             "#include <stdint.h>", "", f"#define DIGITS_IMAGES {len(images)}", "",
             f"static const uint8_t digits_labels[DIGITS_IMAGES] = {{"]
    for at in range(0, len(labels), 30):
        lines.append("\t" + " ".join(f"{v}," for v in labels[at : at + 30]))
    lines += ["};", "", "static const uint8_t digits_pixels[DIGITS_IMAGES][64] = {"]
    for image in images.reshape(len(images), 64).astype(int):
        half = [",".join(str(v) for v in image[at : at + 32]) for at in (0, 32)]
        lines += ["\t{ " + half[0] + ",", "\t  " + half[1] + " },"]
    lines += ["};", "", "#endif", ""]
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--out", default=HERE, help="folder for weights.h and data.h")
    ap.add_argument("--check", action="store_true", help="compare with the files there instead")
    ap.add_argument("--quiet", action="store_true")
    args = ap.parse_args()

    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images / 16.0
    labels = digits.target
    p = train(images[:-HELD_OUT], labels[:-HELD_OUT], args.seed, args.epochs, args.quiet)

    q = {k: v.astype(np.float64) for k, v in p.items()}
    guess = forward(q, images[-HELD_OUT:])[0].argmax(axis=0)
    right = int((guess == labels[-HELD_OUT:]).sum())
    print(f"{right} of {HELD_OUT} held-out images right ({100 * right / HELD_OUT:.2f} %)")

    wrong = 0
    for name, text in (("weights.h", weights_text(p, args.seed, args.epochs)),
                       ("data.h", data_text(digits.images[-HELD_OUT:], labels[-HELD_OUT:]))):
        path = os.path.join(args.out, name)
        if args.check:
            with open(path, encoding="ascii") as f:
                same = f.read() == text
            print(f"{name}: {'the same' if same else 'DIFFERENT'}")
            wrong += not same
        else:
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
