"""Building a SURE benchmark from any queries and passages with any language model, and judging what was built.

Kong et al., "SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models" (SURE, 3.2, 4.1 and A).
"""
