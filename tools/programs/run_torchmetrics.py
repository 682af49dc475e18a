"""torchmetrics: metrics that gather over batches."""

import torchmetrics as metrics
from common import say, torch, wave

logits = wave(40, 5) + wave(40, 5, phase=0.3) * 2
target = (torch.arange(40) * 7) % 5
scores, truth = logits.softmax(-1), target
task = {"task": "multiclass", "num_classes": 5}
for name in ("Accuracy", "Precision", "Recall", "F1Score", "AUROC", "CohenKappa", "ConfusionMatrix",
"Specificity",
             "JaccardIndex", "MatthewsCorrCoef", "CalibrationError", "AveragePrecision",
    "HammingDistance"):  # fmt: skip
    metric = getattr(metrics, name)(**task)
    for start in range(0, 40, 10):
        metric.update(scores[start : start + 10], truth[start : start + 10])
    say(name, metric.compute())
first, second = wave(60), wave(60, phase=0.4) + 0.1
for name in ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef",
             "ExplainedVariance", "CosineSimilarity", "KendallRankCorrCoef"):  # fmt: skip
    metric = getattr(metrics, name)()
    shape = (6, 10) if name == "CosineSimilarity" else (60,)
    metric.update(first.reshape(shape), second.reshape(shape))
    say(name, metric.compute())
for name, options in (("PeakSignalNoiseRatio", {"data_range": 2.0}), ("StructuralSimilarityIndexMeasure", {}),
                      ("TotalVariation", {})):  # fmt: skip
    metric = getattr(metrics.image, name)(**options)
    images = wave(2, 3, 24, 24), wave(2, 3, 24, 24, phase=0.3)
    metric.update(*(images[:1] if name == "TotalVariation" else images))
    say(name, metric.compute())
collection = metrics.MetricCollection([metrics.Accuracy(**task), metrics.F1Score(average="macro", **task)])
say("collection", list(collection(scores, truth).values()))
for name in ("BLEUScore", "CharErrorRate", "WordErrorRate"):
    metric = getattr(metrics.text, name)()
    spoken = [["there is a cat on the mat"]] if name == "BLEUScore" else ["there is a cat on the mat"]
    say(name, metric(["the cat is on the mat"], spoken))
say("mean", metrics.MeanMetric()(wave(7)))
