"""Network architectures, one per file. All support rows: see :mod:`fedlib.models.layers`."""

from fedlib.models.attention_classifier import AttentionClassifier as AttentionClassifier
from fedlib.models.batch_norm import BatchNorm2d as BatchNorm2d
from fedlib.models.delta_cnn import DeltaCNN as DeltaCNN
from fedlib.models.distilbert import DistilBERT as DistilBERT
from fedlib.models.emnist_autoencoder import EMNISTAutoencoder as EMNISTAutoencoder
from fedlib.models.emnist_cnn import EMNISTCNN as EMNISTCNN
from fedlib.models.mlp import MLP as MLP
from fedlib.models.mlp import Softmax as Softmax
from fedlib.models.mlp import TagModel as TagModel
from fedlib.models.next_word_lstm import NextWordLSTM as NextWordLSTM
from fedlib.models.replace_batch_norm import replace_batch_norm as replace_batch_norm
from fedlib.models.resnet import ResNet as ResNet
from fedlib.models.resnet_gn import ResNet18GN as ResNet18GN
from fedlib.models.sent140_lstm import Sent140LSTM as Sent140LSTM
from fedlib.models.shakespeare_lstm import ShakespeareLSTM as ShakespeareLSTM
from fedlib.models.small_cnn import SmallCNN as SmallCNN
from fedlib.models.vgg import VGG11 as VGG11
from fedlib.models.window import WindowModel as WindowModel
