"""What the settings of tool robustness share: what nearness is, and how many candidates a failed call is told."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.strict import STRICT
from grid.retrievers.embedding import EmbeddingModel
from grid.robustness.similarity import Embeddings, Lexical, Similarity


@dataclass(frozen=True, config=STRICT)
class Matching(EmbeddingModel):
    """Names are compared by their words and letters (`lexical`) or by a sentence-transformers model (`embeddings`).

    Args:
        similarity: which.
        candidates: of the call's input, the nearest so many.
        paragraphs: that a search has to go by, where the tools search texts instead (`RetrievingWorld`).
        hub, wheel, path, query_prefix: the model of embeddings, as a dense retriever's.
    """

    similarity: Literal["lexical", "embeddings"] = "lexical"
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 10

    key: ClassVar[str] = "robustness"

    def __post_init__(self) -> None:
        """Raises ConfigError where the model is not named, or cannot be run."""
        if self.similarity == "embeddings":
            self.check(self.key)

    @property
    def nearness(self) -> Similarity:
        """How names are compared."""
        return Lexical() if self.similarity == "lexical" else Embeddings(self, self.key)
