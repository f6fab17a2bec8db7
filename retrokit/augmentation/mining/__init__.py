"""Hard negatives for pairs: texts that a similarity ranks high for an anchor and that are not its positive.

De Souza P. Moreira et al., "NV-Retriever: Improving text embedding models with effective hard-negative mining", 2024;
the defaults are the recipe of SFS, B.2: the top 7 of a search over the whole corpus, at least 0.04 below the positive.
Any searcher, and a reranker as judge if wanted, in this order:

1. search: all candidates are ranked for every anchor; the anchor's text, all its known positives and its given
   negatives are taken out, compared without regard to white space;
2. rank range: of what is left, the candidates at ranks ``first_rank`` to ``last_rank`` (from 1) are the pool;
3. judge: if there is one, its scores take the place of the similarity's, in the pool and for the positives;
4. margins: a candidate stays if ``score + absolute_margin ≤ positive``,
   ``score ≤ positive − relative_margin·|positive|`` and ``min_score ≤ score ≤ max_score``, where ``positive`` is the
   score of the row's own positive;
5. sampling: the best of them (``top``), or any (``random``).

A margin is on the scale of the scores: 0.04 fits cosine, and is next to nothing for inner products in the hundreds. The
relative margin is a share of the positive's size, so it also asks for lower scores where scores are negative (minus a
distance). Both are computed as ``sentence_transformers.util.mine_hard_negatives`` does. It differs where an anchor has
several positives (it takes the lowest of their scores for all rows), and in counting ranks after the margins.
"""
