"""Network architectures, one per file. All carry rows: see :mod:`fedlib.models.layers`."""

from fedlib.models.emnist_cnn import EMNISTCNN
from fedlib.models.resnet_gn import ResNet18GN
from fedlib.models.softmax import Softmax

__all__ = ["EMNISTCNN", "ResNet18GN", "Softmax"]
