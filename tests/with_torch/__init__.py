"""Tests that import torch or transformers, all in one process: to import them takes seconds."""
