"""Fine-tuning on the sentence-transformers trainer: loss, batches, run folders, and how they come together.

Start at :mod:`retrokit.training.finetune`; :mod:`retrokit.training.config` has every option.
"""
