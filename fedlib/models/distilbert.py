"""DistilBERT for classifying texts, which Delta-SGD fine-tunes on AG News and DBpedia."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.arguments import called
from fedlib.errors import Error, require
from fedlib.models.architecture import Architecture
from fedlib.models.attention import SelfAttention
from fedlib.models.layers import Dropout, LayerNorm, Linear, scaled
from fedlib.models.recurrent import Embedding

EPS = 1e-12  # in all norms
STD = 0.02  # standard deviation of all initial weights
PADDING = 0  # the token that pads a text

# Names in the published weights -> names in this module.
PUBLISHED_NAMES = (
    ("words.", "embeddings.word_embeddings."),
    ("positions.", "embeddings.position_embeddings."),
    ("norm.", "embeddings.LayerNorm."),
    ("blocks.", "transformer.layer."),
    ("attention.query.", "attention.q_lin."),
    ("attention.key.", "attention.k_lin."),
    ("attention.value.", "attention.v_lin."),
    ("attention.output.", "attention.out_lin."),
    ("norm1.", "sa_layer_norm."),
    ("dense1.", "ffn.lin1."),
    ("dense2.", "ffn.lin2."),
    ("norm2.", "output_layer_norm."),
)


class Block(nn.Module):
    """Self-attention and two dense layers with GELU between, each added to its input and normed."""

    def __init__(self, size: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(size, heads, dropout)
        self.norm1 = LayerNorm(size, EPS)
        self.dense1 = Linear(size, hidden)
        self.dense2 = Linear(hidden, size)
        self.dropout = Dropout(dropout)
        self.norm2 = LayerNorm(size, EPS)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(self.attention(x, mask) + x)
        return self.norm2(self.dropout(self.dense2(F.gelu(self.dense1(x)))) + x)


class DistilBERT(Architecture):
    """The transformer of Sanh et al. (2019) with its usual classification head.

    It sums word and position vectors and normalises them. Blocks of self-attention follow. The
    first token's output then passes a dense layer with ReLU, dropout of 0.2, and the logits. The
    full size has 66,956,548 parameters for 4 classes and 66,964,238 for 14. Initial weights are
    N(0, 0.02), biases 0, norms 1, and the padding's word vector 0.

    Args:
        classes: number of classes.
        vocab, positions: number of known tokens, and length of the longest text.
        dim, layers, heads, hidden: size of a token's vector, number of blocks, attention heads in
            each, and units between a block's dense layers.
        dropout: probability for the embedding, the attention weights and the blocks' dense layers.
        head_dropout: probability before the logits.
        width: multiplies heads, hidden and dim (to a multiple of the heads).

    Input integers ``[..., T]``, where 0 is padding that is masked out. Output logits
    ``[..., classes]``.
    """

    def __init__(
        self,
        classes: int = 4,
        vocab: int = 30_522,
        positions: int = 512,
        dim: int = 768,
        layers: int = 6,
        heads: int = 12,
        hidden: int = 3072,
        dropout: float = 0.1,
        head_dropout: float = 0.2,
        width: float = 1.0,
    ) -> None:
        super().__init__()
        heads, hidden = scaled(heads, width), scaled(hidden, width)
        dim = scaled(dim, width, heads)
        self.words = Embedding(vocab, dim)
        self.positions = Embedding(positions, dim)
        self.norm = LayerNorm(dim, EPS)
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, hidden, dropout) for _ in range(layers))
        self.pre_classifier = Linear(dim, dim)
        self.head_dropout = Dropout(head_dropout)
        self.classifier = Linear(dim, classes)
        for module in self.modules():
            if isinstance(module, Linear | Embedding):
                nn.init.normal_(module.weight, std=STD)
            if isinstance(module, Linear):
                nn.init.zeros_(module.bias)
        nn.init.zeros_(self.words.weight[PADDING])

    def features(self, x: Tensor) -> Tensor:
        """The activations ``[..., dim]`` before the logits' dropout."""
        steps, most = x.shape[-1], self.positions.weight.shape[-2]
        require(steps <= most, "the number of tokens in a text", steps, f"1..{most} (positions)")
        mask = x != PADDING
        y = self.words(x) + self.positions.weight[..., None, :steps, :]
        y = self.dropout(self.norm(y))
        for block in self.blocks:
            y = block(y, mask)
        return F.relu(self.pre_classifier(y[..., 0, :]))

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        return self.classifier(self.head_dropout(features))

    def load_pretrained(self, name: str = "distilbert-base-uncased") -> DistilBERT:
        """Load published weights for everything but the classification head, and return the model.

        Args:
            name: a model that the package transformers knows or finds on disk, or a folder.

        Raises:
            Error: transformers is missing, the weights are neither on disk nor can be downloaded,
                or they have another size.
        """
        try:
            from transformers import DistilBertModel
        except ImportError:
            raise Error(
                "pretrained weights need the package transformers: pip install 'fedlib[text]'"
            ) from None
        what = f"taking the weights {name!r}, of a folder or downloaded when online once,"
        published = called(what, DistilBertModel.from_pretrained, name).state_dict()
        for ours, parameter in self.named_parameters():
            if ours.startswith(("pre_classifier.", "classifier.")):
                continue
            theirs = ours
            for own, name_there in PUBLISHED_NAMES:
                theirs = theirs.replace(own, name_there)
            values = published.get(theirs)
            if values is None or values.shape != parameter.shape:
                what = "missing" if values is None else f"of shape {tuple(values.shape)}"
                raise Error(
                    f"the weights {name!r}: {theirs} is {what}, but this model "
                    f"needs the shape {tuple(parameter.shape)}: build the model with their size"
                )
            with torch.no_grad():
                parameter.copy_(values)
        return self
