"""The sets of MTEB tasks that the papers evaluate on, in the blocks of their tables, by MTEB's names.

SFS, Table 9; CROP, Table 1; MAG, Table 28 (MS MARCO Dev, TREC-DL, BEIR 14, BRIGHT 12; HotpotQA is one of BEIR's). MTEB
lacks MAG's 2WikiMultihopQA, MuSiQue and NovelHopQA: ``examples/multihop_to_beir.py`` makes BEIR folders of them. Of
tasks in several languages the English test set counts.
"""

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "@sfs": {
        "Retrieval": tuple(
            f"Nano{name}Retrieval"
            for name in (
                *("ArguAna", "ClimateFever", "DBPedia", "FEVER", "FiQA2018", "HotpotQA", "MSMARCO", "NFCorpus"),
                *("Quora", "SCIDOCS", "SciFact", "Touche2020"),
            )
        ),
        "Reranking": ("AskUbuntuDupQuestions", "MindSmallReranking", "SciDocsRR", "StackOverflowDupQuestions"),
        "Classification": (
            *("AmazonCounterfactualClassification", "AmazonPolarityClassification", "AmazonReviewsClassification"),
            *("Banking77Classification", "ImdbClassification", "ToxicConversationsClassification"),
            "TweetSentimentExtractionClassification",
        ),
        "STS": ("BIOSSES", "STS12", "STS13", "STS14", "STS15", "STS16", "STS17", "STS22"),
    },
    "@crop": {
        "Clustering": (
            *("ArxivClusteringP2P", "BiorxivClusteringP2P", "MedrxivClusteringP2P", "RedditClusteringP2P"),
            "StackExchangeClusteringP2P",
        ),
        "Reranking": ("SciDocsRR", "MindSmallReranking"),
        "Retrieval": ("SCIDOCS", "ArguAna"),
        "STS": ("STS15", "STS16", "STSBenchmark"),
        "Classification": (
            *("AmazonPolarityClassification", "Banking77Classification", "ImdbClassification"),
            *("MassiveIntentClassification", "MassiveScenarioClassification", "MTOPDomainClassification"),
            "TweetSentimentExtractionClassification",
        ),
    },
    "@mag": {
        "MS MARCO Dev": ("MSMARCO",),
        "TREC-DL": ("TRECDL2019", "TRECDL2020"),
        "BEIR": (
            *("ArguAna", "ClimateFEVER", "CQADupstackRetrieval", "DBPedia", "FEVER", "FiQA2018", "HotpotQA"),
            *("NFCorpus", "NQ", "QuoraRetrieval", "SCIDOCS", "SciFact", "TRECCOVID", "Touche2020"),
        ),
        "BRIGHT": tuple(
            f"Bright{name}Retrieval"
            for name in (
                *("Aops", "Biology", "EarthScience", "Economics", "Leetcode", "Pony", "Psychology", "Robotics"),
                *("Stackoverflow", "SustainableLiving", "TheoremQAQuestions", "TheoremQATheorems"),
            )
        ),
    },
}
CLASSIFIERS = {"@sfs": "knn"}
"""What decides tasks of classification where a paper does not take mteb's logistic regression (SFS, C)."""
