"""Network architectures, one per file. All support rows: see :mod:`fedlib.models.layers`."""

from fedlib.models.attention_classifier import AttentionClassifier
from fedlib.models.batch_norm import BatchNorm2d
from fedlib.models.delta_cnn import DeltaCNN
from fedlib.models.distilbert import DistilBERT
from fedlib.models.emnist_autoencoder import EMNISTAutoencoder
from fedlib.models.emnist_cnn import EMNISTCNN
from fedlib.models.mlp import MLP
from fedlib.models.next_word_lstm import NextWordLSTM
from fedlib.models.replace_batch_norm import replace_batch_norm
from fedlib.models.resnet import ResNet
from fedlib.models.resnet_gn import ResNet18GN
from fedlib.models.sent140_lstm import Sent140LSTM
from fedlib.models.shakespeare_lstm import ShakespeareLSTM
from fedlib.models.small_cnn import SmallCNN
from fedlib.models.softmax import Softmax
from fedlib.models.tag_model import TagModel
from fedlib.models.vgg import VGG11
from fedlib.models.window import WindowModel

__all__ = [
    "EMNISTCNN",
    "MLP",
    "VGG11",
    "AttentionClassifier",
    "BatchNorm2d",
    "DeltaCNN",
    "DistilBERT",
    "EMNISTAutoencoder",
    "NextWordLSTM",
    "ResNet",
    "ResNet18GN",
    "Sent140LSTM",
    "ShakespeareLSTM",
    "SmallCNN",
    "Softmax",
    "TagModel",
    "WindowModel",
    "replace_batch_norm",
]
