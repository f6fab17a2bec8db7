"""Build a SURE benchmark from any queries and passages with any language model, and judge its variants.

Kong et al., "SURE or Not? Investigating Semantic Understanding in Dense Retrieval Models" (SURE, 3.2, 4.1 and A).
"""
