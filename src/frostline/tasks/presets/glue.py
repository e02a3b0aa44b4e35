"""GLUE: nine tasks, as on the hub (nyu-mll/glue) and in the official files."""

from frostline.tasks.presets._benchmark import Benchmark, register

_HUB = "nyu-mll/glue"

register(
    Benchmark(
        name="glue/cola",
        summary="is the sentence acceptable English?",
        hub=(_HUB, "cola"),
        folders=("CoLA",),
        columns={"sentence": ("sentence",), "label": ("label",)},
        headerless={".tsv": ("source", "label", "mark", "sentence")},
        text="sentence",
        label_names=("unacceptable", "acceptable"),
        metrics=("matthews", "accuracy"),
        aliases=("cola",),
        tags=("syntactic understanding", "environmental shift"),
    )
)

register(
    Benchmark(
        name="glue/sst2",
        summary="is the phrase from a film review positive?",
        hub=(_HUB, "sst2"),
        folders=("SST-2", "SST2"),
        columns={"sentence": ("sentence",), "label": ("label",)},
        text="sentence",
        label_names=("negative", "positive"),
        aliases=("sst2",),
        tags=("semantic understanding", "commonsense and world knowledge", "environmental shift"),
    )
)

register(
    Benchmark(
        name="glue/mrpc",
        summary="do two news sentences say the same?",
        hub=(_HUB, "mrpc"),
        folders=("MRPC",),
        columns={
            "sentence1": ("sentence1", "#1 String"),
            "sentence2": ("sentence2", "#2 String"),
            "label": ("label", "Quality"),
        },
        text="sentence1",
        pair="sentence2",
        label_names=("not_equivalent", "equivalent"),
        metrics=("f1", "accuracy"),
        aliases=("mrpc",),
        tags=("discourse understanding", "domain shift"),
    )
)

register(
    Benchmark(
        name="glue/stsb",
        summary="how alike in meaning are two sentences, 0 to 5?",
        hub=(_HUB, "stsb"),
        folders=("STS-B", "STSB"),
        columns={"sentence1": ("sentence1",), "sentence2": ("sentence2",), "label": ("label", "score")},
        text="sentence1",
        pair="sentence2",
        label_names=(),
        kind="regression",
        metrics=("spearman", "pearson"),
        aliases=("stsb",),
        tags=("temporal drift",),
    )
)

register(
    Benchmark(
        name="glue/qqp",
        summary="do two questions ask the same?",
        hub=(_HUB, "qqp"),
        folders=("QQP",),
        columns={
            "question1": ("question1",),
            "question2": ("question2",),
            "label": ("label", "is_duplicate"),
        },
        text="question1",
        pair="question2",
        label_names=("not_duplicate", "duplicate"),
        metrics=("f1", "accuracy"),
        aliases=("qqp",),
        tags=("semantic understanding",),
        drops_short_rows=True,
    )
)

register(
    Benchmark(
        name="glue/mnli",
        summary="does the premise entail the hypothesis? (matched dev set)",
        hub=(_HUB, "mnli"),
        folders=("MNLI", "MultiNLI"),
        columns={
            "premise": ("premise", "sentence1"),
            "hypothesis": ("hypothesis", "sentence2"),
            "label": ("label", "gold_label"),
        },
        text="premise",
        pair="hypothesis",
        group="premise",
        label_names=("entailment", "neutral", "contradiction"),
        aliases=("mnli", "mnli-m", "mnli-matched"),
        tags=("discourse understanding", "domain shift"),
        dev_files=("dev_matched", "validation_matched"),
        drops_label="-",
        dev_alone=True,
    )
)

register(
    Benchmark(
        name="glue/qnli",
        summary="does the sentence answer the question?",
        hub=(_HUB, "qnli"),
        folders=("QNLI",),
        columns={"question": ("question",), "sentence": ("sentence",), "label": ("label",)},
        text="question",
        pair="sentence",
        label_names=("entailment", "not_entailment"),
        aliases=("qnli",),
        tags=("semantic understanding", "commonsense and world knowledge", "environmental shift"),
    )
)

register(
    Benchmark(
        name="glue/rte",
        summary="does the first text entail the second?",
        hub=(_HUB, "rte"),
        folders=("RTE",),
        columns={
            "sentence1": ("sentence1", "premise"),
            "sentence2": ("sentence2", "hypothesis"),
            "label": ("label",),
        },
        text="sentence1",
        pair="sentence2",
        label_names=("entailment", "not_entailment"),
        aliases=("rte",),
        tags=("textual entailment", "temporal drift"),
    )
)

register(
    Benchmark(
        name="glue/wnli",
        summary="does the sentence with its pronoun filled in follow?",
        hub=(_HUB, "wnli"),
        folders=("WNLI",),
        columns={"sentence1": ("sentence1",), "sentence2": ("sentence2",), "label": ("label",)},
        text="sentence1",
        pair="sentence2",
        group="sentence1",
        label_names=("not_entailment", "entailment"),
        aliases=("wnli",),
        tags=("discourse understanding",),
    )
)
