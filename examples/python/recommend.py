"""Recommends from a model of `dp train` with numpy alone, as an example for clients in other languages.

    python3 examples/python/recommend.py MODEL_FOLDER HISTORY.csv [K]

MODEL_FOLDER holds item_factors.safetensors and items.csv, both released; HISTORY.csv has the columns item and rating of
one user and stays with that user. Models of ratings with item biases (schemas 1, 4 and 5).
"""

import csv
import json
import sys

import numpy as np


def read_model(folder):
    """Rows [h_i, q_i] of the items, their standard errors or None, ids and titles of the items, and the scoring settings."""
    with open(f"{folder}/item_factors.safetensors", "rb") as file:
        data = file.read()
    # eight bytes of length, a header in JSON, then the numbers
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    ours = json.loads(header["__metadata__"]["dp_personal"])
    if ours["schema_version"] > 5:
        sys.exit(f"model schema {ours['schema_version']} is newer than this reader, which reads 1, 4 and 5")
    if ours["schema_version"] in (2, 3):
        sys.exit("this reader is for models of ratings with item biases")

    def matrix(name):
        start, end = header[name]["data_offsets"]
        return np.frombuffer(data[8 + length :][start:end], dtype="<f8").reshape(header[name]["shape"])

    with open(f"{folder}/items.csv", newline="", encoding="utf-8") as file:
        items = [(row["item"], row["title"]) for row in csv.DictReader(file)]
    errors = matrix("standard_errors") if "standard_errors" in header else None
    return matrix("item_factors"), errors, items, ours["scoring"]


def fold_in(factors, errors, scoring, rated, ratings):
    """Level, share of the item biases (all) and taste vector of one user, by ridge regression on the user's ratings alone.

    (o, v) = argmin sum_i (y_i - h_i - o - <q_i, v>)^2 + lambda_o o^2 + (lambda + n lambda_n) |v|^2 with y_i = rating_i
    - center - bias, where bias is the user's shrunken mean. Standard errors are not used.
    """
    center, shrinkage = scoring["bias"]["center"], scoring["bias"]["shrinkage"]
    penalties = scoring["penalties"]
    n = len(ratings)
    bias = np.sum(ratings - center) / (n + shrinkage) if n else 0.0
    rows = factors[rated].copy()
    labels = ratings - center - bias - rows[:, 0]
    rows[:, 0] = 1.0
    ridge = np.full(factors.shape[1], penalties["factor"] + n * penalties["factor_per_record"])
    ridge[0] = penalties["offset"]
    solution = np.linalg.solve(rows.T @ rows + np.diag(ridge), rows.T @ labels)
    return center + bias + solution[0], 1.0, solution[1:]


def weigh(factors, errors, scoring, rated, ratings):
    """Level, share of the item biases and taste vector of one user, if the model leaves penalties to the user.

    The mean of 54 ridge regressions, weighted by the marginal likelihood of the user's own ratings and a fixed prior. If the
    standard errors of the items are known, a rating of an uncertain item counts less.
    """
    labels = ratings - scoring["bias"]["center"]
    biases, rows = factors[rated, 0], factors[rated].copy()
    rows[:, 0] = 1.0
    weights = np.ones(len(labels))
    if errors is not None and len(labels):
        left = labels - biases
        s2 = max((np.sum((left - left.mean()) ** 2) + left.mean() ** 2) / len(left), np.finfo(float).tiny)
        variances = errors[rated] ** 2
        weights = 1.0 / (1.0 + variances[:, 0] / s2 + variances[:, 1:].sum(axis=1) / 16.0)
    root = np.sqrt(weights)
    labels, biases, rows = root * labels, root * biases, root[:, None] * rows
    fits = []
    for taste in (1.0, 4.0, 16.0, 64.0, 256.0, None):
        k = 1 if taste is None else factors.shape[1]
        if taste is not None and k == 1:
            continue  # no taste factors in the model
        design = rows[:, :k]
        for offset in (1.0, 5.0, 25.0):
            ridge = np.full(k, taste or 1.0)
            ridge[0] = offset
            matrix = design.T @ design + np.diag(ridge)
            log_det = np.linalg.slogdet(matrix)[1] - np.log(ridge).sum()
            away = (np.log((taste or 1024.0) / 16.0) / np.log(4.0)) ** 2
            away += (np.log(offset / 8.0) / np.log(5.0)) ** 2
            for share in (1.0, 0.5, 0.0):
                left = labels - share * biases
                solution = np.linalg.solve(matrix, design.T @ left)
                rest = max(left @ left - solution @ (design.T @ left), 1e-9 * (1.0 + labels @ labels))
                weight = -0.5 * (len(labels) * np.log(rest) + log_det)
                weight -= 0.75 * away + 4.5 * (1.0 - share)
                fits.append((weight, share, np.pad(solution, (0, factors.shape[1] - k))))
    weights = np.array([weight for weight, _, _ in fits])
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    share = weights @ [share for _, share, _ in fits]
    solution = weights @ [solution for _, _, solution in fits]
    return scoring["bias"]["center"] + solution[0], share, solution[1:]


def main(folder, history, k=10):
    factors, errors, items, scoring = read_model(folder)
    place = {item: at for at, (item, _) in enumerate(items)}
    with open(history, newline="", encoding="utf-8") as file:
        own = {place[row["item"]]: float(row["rating"]) for row in csv.DictReader(file) if row["item"] in place}
    rated = np.array(sorted(own), dtype=int)
    fit = fold_in if "penalties" in scoring else weigh
    level, share, taste = fit(factors, errors, scoring, rated, np.array([own[at] for at in rated]))
    scores = level + share * factors[:, 0] + factors[:, 1:] @ taste
    scores[rated] = -np.inf
    for at in np.argsort(-scores, kind="stable")[: int(k)]:
        print(f"{scores[at]:.6f}\t{items[at][0]}\t{items[at][1]}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
